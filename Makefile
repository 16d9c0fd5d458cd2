# make demo | test | test-studies | test-all | torture | lint | types | house | docs | reproduce-entropy | reproduce-synthetic | bench | clean
# Everything runs in .venv, which is made from a Python 3.11 or newer and the pinned constraints.txt.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
# Compiled XLA programs are kept between test runs.
# Two workers share two cores: NumPy's linear algebra takes one thread each.
TESTENV := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 JAX_COMPILATION_CACHE_DIR=$(CURDIR)/.cache/jax JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0.3
# tests/conftest.py compiles fast, not well; 'make test-all' compiles as users do.
USERFLAGS := --xla_cpu_use_fusion_emitters=true --xla_cpu_parallel_codegen_split_count=32 --xla_backend_optimization_level=3

 .PHONY: demo test test-studies test-all torture torture-small lint types house docs check reproduce-entropy reproduce-synthetic bench constraints clean

demo: $(VENV)/.installed
	@echo "==> ergodic demo"
	$(BIN)/ergodic demo --out runs/demo

test: $(VENV)/.installed-test
	@echo "==> pytest (fast tests; 'make test-all' adds the slow ones)"
	$(TESTENV) $(BIN)/python -m pytest -n 2 --durations=15

test-studies: $(VENV)/.installed-test
	@echo "==> pytest, the studies' fast tests"
	@command -v chromium >/dev/null || echo "    no Chromium found: the report page's browser tests are skipped (install 'chromium' to run them)"
	$(TESTENV) $(BIN)/python -m pytest -n 2 studies/tests

test-all: $(VENV)/.installed-test
	@echo "==> pytest, slow tests included"
	XLA_FLAGS="$(USERFLAGS)" $(TESTENV) $(BIN)/python -m pytest -n 2 -m 'slow or not slow' tests studies/tests

lint: $(VENV)/.installed-test
	$(BIN)/ruff check src studies tests examples tools
	$(BIN)/ruff format --check src studies tests examples tools

types: $(VENV)/.installed-test
	$(BIN)/mypy

# The site, strictly: every link, every page, every notebook executed. Into site/.
docs: $(VENV)/.installed-docs
	@echo "==> mkdocs (executes the notebooks: some minutes)"
	JAX_PLATFORMS=cpu PYTHONWARNINGS= $(TESTENV) $(BIN)/mkdocs build --strict

house: $(VENV)/.installed-test
	$(BIN)/python tools/house.py

check: lint types test test-studies

reproduce-entropy reproduce-synthetic: reproduce-%: $(VENV)/.installed
	$(BIN)/ergodic reproduce $* --preset cpu --out studies/results/$*

torture: $(VENV)/.installed-test
	$(TESTENV) $(BIN)/ergodic bench torture --preset full --out runs/torture

torture-small: $(VENV)/.installed-test
	$(TESTENV) $(BIN)/ergodic bench torture --preset smoke --out runs/torture-small

bench: $(VENV)/.installed
	$(BIN)/ergodic bench core --out studies/results/core
	$(BIN)/ergodic bench settings --out studies/results/settings

# The environment -----------------------------------------------------------------------------------------------

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "error: no python3.11 or python3 found; install Python 3.11 or newer, or set PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "error: $(PYTHON) is older than Python 3.11; set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "==> creating $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "error: '$(PYTHON) -m venv' failed; on Debian or Ubuntu install python3-venv first"; exit 1; }

$(VENV)/.installed: pyproject.toml studies/pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "==> installing ergodic and what it needs into $(VENV) (JAX and friends, some 300 MB; once, a few minutes)"
	@$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e . -e ./studies
	@touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	@echo "==> installing the test and lint tools into $(VENV)"
	@$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[test,lint]' -e './studies[test]'
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	@echo "==> installing what the site needs into $(VENV)"
	@$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

# Rewrite the pins from what is installed now.
constraints: $(VENV)/.installed-test
	@{ echo "# Pinned versions that the tests ran with. Rewrite with 'make constraints'."; \
	   $(BIN)/python -m pip freeze --exclude-editable; } > constraints.txt.new && mv constraints.txt.new constraints.txt

clean:
	rm -rf $(VENV) .cache .pytest_cache .ruff_cache .mypy_cache .hypothesis runs

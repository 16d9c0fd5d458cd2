"""CONTRIBUTING.md's recipes, followed to the letter in a copy of the project."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("src", "tests", "studies", "tools", "docs", "examples", "pyproject.toml", "README.md", "CONTRIBUTING.md")
FILES = re.compile(r"`((?:src|tests|studies)/[\w/]+\.py)`:\n\n```python\n(.*?)```", re.DOTALL)
LINES = (
    # file, what stands there, what a newcomer writes in its place
    ("src/ergodic/targets/classics.py", "CLASSICS = {\n", "CLASSICS = {\n    {gumbel_line}"),
    ("src/ergodic/targets/classics.py", "from .quadrature", "from . import gumbel\nfrom .quadrature"),
    (
        "src/ergodic/kernels/__init__.py",
        "\n__all__ = [",
        "{kernel_line}\n__all__ = [\n 'RandomWalk', 'RandomWalkParams',\n",
    ),
    ("src/ergodic/charts/__init__.py", "\nLinearChart", "{chart_line}\nLinearChart"),
    ("src/ergodic/charts/__init__.py", "__all__ = [", "__all__ = ['ScalarChart', "),
    ("src/ergodic/methods/__init__.py", "\n_OURS = (", "{method_line}\n_OURS = (Walks, "),
    ("src/ergodic/methods/__init__.py", "__all__ = [", "__all__ = [\n    'Walks',"),
    ("tests/methods/test_protocol.py", "SMALL = {\n", 'SMALL = {\n    "Walks": METHODS["Walks"](length=10),\n'),
    ("tests/methods/test_protocol.py", "INDEPENDENT = {", 'INDEPENDENT = {"Walks", '),
    ("tests/test_protocols.py", "CAPABILITIES = {\n", "CAPABILITIES = {\n    {capability}\n"),
    ("studies/ergodic_studies/commands/registry.py", "BENCH = {\n", "BENCH = {\n{study_line}"),
)
COMMAND = ("-c", "from ergodic.cli import main; main()")


def _between(text, before, after="```"):
    return text.split(before, 1)[1].split(after, 1)[0]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The project with all five examples in it."""
    root = tmp_path_factory.mktemp("copy")
    for part in PARTS:
        there = ROOT / part
        if there.is_dir():
            shutil.copytree(there, root / part, ignore=shutil.ignore_patterns("results", "__pycache__"))
        else:
            shutil.copy(there, root / part)
    text = (ROOT / "CONTRIBUTING.md").read_text()
    files = {name: content for name, content in FILES.findall(text) if not (ROOT / name).exists()}
    assert len(files) == 7  # five parts, and the tests of two of them
    for name, content in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(content)
    said = {
        "{gumbel_line}": '"gumbel": Classic' + _between(text, '"gumbel": Classic'),
        "{kernel_line}": "from .random_walk" + _between(text, "from .random_walk"),
        "{chart_line}": "from .scalar" + _between(text, "from .scalar"),
        "{method_line}": "from .walks" + _between(text, "from .walks"),
        "{study_line}": '    "skew":' + _between(text, '    "skew":'),
        "{capability}": '"Walks": {' + _between(text, '"Walks": {', "`"),
    }
    for name, before, after in LINES:
        for mark, line in said.items():
            after = after.replace(mark, line)
        source = (root / name).read_text()
        assert before in source, f"{name} has no {before!r}"
        (root / name).write_text(source.replace(before, after, 1))
    for command in (("format", "-q", "src", "tests", "studies"), ("check", "--fix", "-q", "src", "tests")):
        subprocess.run([sys.executable, "-m", "ruff", *command], cwd=root, check=True)
    return root


def _run(root, *command):
    """A command of the copy's own code."""
    path = os.pathsep.join(str(root / part) for part in ("src", "studies", "tests"))
    done = subprocess.run(
        [sys.executable, *command],
        cwd=root,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_the_examples_pass_the_tests_that_are_named(copy):
    named = ("targets/test_classics.py", "kernels/test_random_walk.py", "charts/test_scalar.py", "test_protocols.py")
    keep = "gumbel or random_walk or scalar or test_protocols"
    _run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(f"tests/{name}" for name in named), "-k", keep)
    _run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/methods/test_protocol.py", "-k", "Walks")


@pytest.mark.slow
def test_the_commands_know_the_examples(copy):
    assert "gumbel" in _run(copy, *COMMAND, "targets")
    assert "Walks" in _run(copy, *COMMAND, "methods")
    _run(copy, *COMMAND, "fit", "gumbel", "--method", "Walks", "-o", "walks.ergodic")
    _run(copy, *COMMAND, "certify", "walks.ergodic")
    _run(copy, *COMMAND, "bench", "skew", "--preset", "smoke")
    assert (copy / "runs" / "skew" / "report.html").exists()


@pytest.mark.slow
def test_the_examples_are_typed_and_clean(copy):
    _run(copy, "-m", "ruff", "check", "src", "tests", "studies")
    _run(copy, "-m", "mypy")

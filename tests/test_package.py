import re
import subprocess
import sys
from pathlib import Path

import pytest

import ergodic as eg

ROOT = Path(__file__).resolve().parent.parent


def test_importing_creates_no_device_array_and_sets_nothing():
    script = (
        "import jax, os\n"
        "before = {k: v for k, v in jax.config.values.items()}\n"
        "import ergodic, sys\n"
        "assert dict(jax.config.values) == before, 'importing changed the configuration'\n"
        "from jax._src import xla_bridge\n"
        "assert not xla_bridge._backends, 'importing started a backend'\n"
        "heavy = {'matplotlib', 'arviz', 'rich', 'typer', 'scipy.stats', 'blackjax'} & set(sys.modules)\n"
        "assert not heavy, f'importing pulled in {heavy}'\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_public_names():
    for name in eg.__all__:
        assert getattr(eg, name) is not None
    assert re.fullmatch(r"\d+\.\d+\.\d+", eg.__version__)


@pytest.mark.parametrize(
    "document",
    ["README.md", "docs/generative.md", "docs/bnn.md", pytest.param("docs/quickstart.md", marks=pytest.mark.slow)],
)
def test_python_blocks_in_the_documents_run(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.S)
    assert blocks
    names: dict = {}
    for block in blocks:
        exec(compile(block, document, "exec"), names)


def test_nothing_is_pickled():
    """No file holds a pickle; `travel.py` alone answers a user who pickles, and reads what pickle itself has read."""
    for file in {*(ROOT / "src").rglob("*.py")} - {ROOT / "src/ergodic/runtime/travel.py"}:
        assert not re.search(r"\bimport (pickle|dill|cloudpickle)\b|allow_pickle=True", file.read_text()), file

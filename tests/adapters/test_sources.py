"""MODEL on the command line may be a model of NumPyro or PyMC."""

import hashlib
import warnings
from pathlib import Path

import pytest

import ergodic as eg
from ergodic.adapters.sources import resolve, resolve_source

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NUMPYRO = """
import jax.numpy as jnp, numpyro, numpyro.distributions as dist

def model(scale=2.0):
    numpyro.sample("x", dist.Normal(0, scale).expand([3]))

def needs_data(y):
    numpyro.sample("y", dist.Normal(numpyro.sample("m", dist.Normal(0, 1)), 1), obs=y)

def logdensity(x=None):
    return -0.5 * jnp.sum(x**2)
"""
PYMC = """
import pymc as pm

with pm.Model() as model:
    pm.HalfNormal("x", 1)
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """What is named in one test was not named in another."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "model.py"
        path.write_text(text)
        return path

    return write


def test_a_numpyro_model_that_needs_nothing(file):
    path = file(NUMPYRO)
    target, source = resolve(f"{path}:model")
    assert (target.name, target.dim, target.layout.paths) == ("model", 3, ("x",))
    assert resolve_source(source).layout == target.layout


RAN = """
import pathlib
pathlib.Path(__file__).with_suffix(".ran").touch()
import jax.numpy as jnp, ergodic as eg

def logdensity(x):
    return -0.5 * jnp.sum(x**2)

target = eg.Target(logdensity, like=jnp.zeros(2))
"""


def test_a_file_does_not_decide_what_code_runs(file):
    """What the user named before, on this machine, is used again; anything else is asked for, and not imported."""
    path = file(RAN)
    ran = path.with_suffix(".ran")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    crafted = {"file": str(path), "object": "target", "sha256": digest}
    with pytest.raises(eg.ModelError, match=r"not used here before.*--model .*model.py:target runs it"):
        resolve_source(crafted)
    assert not ran.exists()
    _, source = resolve(f"{path}:target")
    assert ran.exists() and source == crafted
    assert resolve_source(source).dim == 2
    ran.unlink()
    for change in ({"object": "logdensity"}, {"object": "logdensity", "dim": "3"}, {"object": "os"}):
        with pytest.raises(eg.ModelError, match="not used here before"):
            resolve_source(crafted | change)
    copy = path.with_name("copy.py")
    copy.write_text(RAN)
    with pytest.raises(eg.ModelError, match="not used here before"):
        resolve_source(crafted | {"file": str(copy)})
    file(RAN + "# changed")
    with pytest.raises(eg.ModelError, match="has changed since the sampler was fitted; --model"):
        resolve_source(crafted)
    path.unlink()
    with pytest.raises(eg.ModelError, match="is gone"):
        resolve_source(crafted)
    assert not ran.exists()


def test_where_the_cache_cannot_be_written_the_model_is_asked_for(file, tmp_path):
    (tmp_path / "cache").write_text("a file")
    path = file(RAN)
    _, source = resolve(f"{path}:target")
    with pytest.raises(eg.ModelError, match="not used here before"):
        resolve_source(source)


def test_functions_that_are_not_numpyro_models(file):
    path = file(NUMPYRO)
    with pytest.raises(eg.ModelError, match=r"add --dim N .*ergodic\.from_numpyro\(model, data\)"):
        resolve(f"{path}:needs_data")
    with pytest.raises(eg.TargetError, match=r"raised .*was taken for a NumPyro model; a log-density needs --dim N"):
        resolve(f"{path}:logdensity")
    assert resolve(f"{path}:logdensity", dim=2)[0].dim == 2


def test_a_pymc_model(file):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("pymc")
    path = file(PYMC)
    for words in (f"{path}:model", str(path)):
        target, source = resolve(words)
        assert (target.name, target.layout.paths, source["object"]) == ("model", ("x_log__",), "model")
    with pytest.raises(eg.ModelError, match="knows its own dimension"):
        resolve(f"{path}:model", dim=2)
    path = file(PYMC + "import ergodic as eg\ntarget = eg.from_pymc(model, name='wrapped')\n")
    assert resolve(str(path))[0].name == "wrapped"  # a Target is meant before the model it was made from
    path = file(PYMC + "with pm.Model() as other:\n    pm.Normal('x')\n")
    with pytest.raises(eg.ModelError, match=r"say which object .*\(it has: model, other\)"):
        resolve(str(path))


@pytest.mark.parametrize(
    ("words", "dim"),
    [
        ("eight_schools_numpyro.py:centred", 10),
        ("eight_schools_numpyro.py:noncentred", 10),
        ("eight_schools_pymc.py", 10),
        pytest.param("hierarchical.py", 22, marks=pytest.mark.slow),
        ("plain.py", 2),
    ],
)
def test_the_examples_are_models(words, dim):
    assert resolve(str(EXAMPLES / words))[0].dim == dim

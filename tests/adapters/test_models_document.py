"""docs/models.md runs as it is written, and what it prints agrees with long runs of NUTS.

Means are compared as z = difference / √(sum of squared standard errors), and |z| < 4.5 asked for: of k quantities that
truly agree, one fails by chance with probability at most 7e-6 k.
"""

import re
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest

import ergodic as eg

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "models.md"
# theta[1..8], mu, tau: posteriordb's reference draws of eight_schools-eight_schools_noncentered, mean and its error.
MEAN = [6.15050, 4.93958, 3.90591, 4.79602, 3.61444, 4.05115, 6.31717, 4.88400, 4.41052, 3.60206]
ERROR = [0.05589, 0.04634, 0.05408, 0.04765, 0.04633, 0.04849, 0.04993, 0.05426, 0.03303, 0.03200]

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.filterwarnings("ignore:invalid value encountered in scalar divide:RuntimeWarning"),  # ArviZ: constants
]


def blocks():
    found = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.S)
    assert len(found) >= 10
    return found


def run(code, names):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning)  # ArviZ 0.23 announces 1.x
        exec(compile(code, DOCUMENT.name, "exec"), names)


def summary(data, names):
    """Means and standard errors of variables, as vectors."""
    import arviz

    table = arviz.summary(data, var_names=names, round_to="none")
    table = table[table["sd"] > 1e-6]  # the corner of a Cholesky factor is constant
    return table["mean"].to_numpy(), table["mcse_mean"].to_numpy()


def agree(one, other):
    z = (one[0] - other[0]) / np.sqrt(one[1] ** 2 + other[1] ** 2)
    assert np.all(np.abs(z) < 4.5), np.round(z, 2)


def test_from_model_to_summary_takes_at_most_five_lines():
    recipes = [block.strip() for block in blocks() if "summary" in block]
    assert len(recipes) == 6
    assert all(block.count("\n") < 5 for block in recipes)


def test_every_block_runs(monkeypatch, capsys):
    """With 50 draws of P0 in place of what the document fits, and no predictions: all of it takes minutes (below)."""
    to_arviz = eg.Draws.to_arviz

    class Start:
        def __init__(self, target, key, method=None):
            self.target = target

        def sample(self, key, n):
            flat = np.asarray(eg.HEI().initial(self.target).sample(key, 50))
            return eg.Draws(self.target, flat, np.zeros(50, np.float32))

    monkeypatch.setattr(eg, "fit", Start)
    monkeypatch.setattr(eg.Draws, "to_arviz", lambda draws: to_arviz(draws, predictive=False, log_likelihood=False))
    names: dict = {}
    for block in blocks():
        run(block, names)
    out = capsys.readouterr().out
    assert out.count("theta[St. Paul's]") == 4 and "beta[3, slope]" in out


@pytest.mark.slow
def test_nuts_on_the_adapted_model_agrees():
    """Ten quantities of eight schools, not centred; fails by chance with probability below 7e-5."""
    names: dict = {}
    for block in blocks()[:2]:
        run(block, names)
    reparam = names["numpyro"].infer.reparam.LocScaleReparam(0)
    model = names["numpyro"].handlers.reparam(names["eight_schools"], config={"theta": reparam})
    target = eg.from_numpyro(model, names["sigma"], names["y"])
    draws = eg.fit(target, jax.random.key(0), eg.NUTS(warmup=500)).sample(jax.random.key(1), 8000)
    data = draws.to_arviz(predictive=False, log_likelihood=False)
    agree(summary(data, ["theta", "mu", "tau"]), (np.array(MEAN), np.array(ERROR)))


@pytest.mark.slow
def test_every_result_agrees_with_nuts():
    """The document as it is written; 4 x 10, 23 and 2 quantities: fails by chance with probability below 5e-4."""
    names: dict = {}
    for block in blocks():
        run(block, names)
    for name in ("numpyro_centred", "numpyro_noncentred", "pymc_centred", "pymc_noncentred"):
        agree(summary(names[name], ["theta", "mu", "tau"]), (np.array(MEAN), np.array(ERROR)))
        groups = {"posterior", "sample_stats", "observed_data", "posterior_predictive", "log_likelihood"}
        assert groups <= set(names[name].groups()), name
    variables = ["mean", "scale", "noise", "beta", "correlation"]
    agree(summary(names["hierarchical"], variables), summary(numpyros_nuts(names), variables))
    agree(summary(names["plain"], ["mean", "scale"]), (exact_plain(names["y"]), np.zeros(2)))


def numpyros_nuts(names):
    """The hierarchical regression by NumPyro's own NUTS."""
    import arviz
    import numpyro

    from ergodic.adapters.languages import tracing

    with tracing(np.dtype(np.float32)):
        chains = numpyro.infer.MCMC(
            numpyro.infer.NUTS(names["regression"]),
            num_warmup=1000,
            num_samples=5000,
            num_chains=2,
            chain_method="sequential",
            progress_bar=False,
        )
        chains.run(jax.random.key(5), names["group"], names["x"], names["response"])
        return arviz.from_numpyro(chains, log_likelihood=False)


def exact_plain(y):
    """Posterior means of the plain density's mean and scale, by quadrature on a grid of 1,001 x 1,001."""
    mean, log_scale = np.linspace(-40, 60, 1001)[:, None], np.linspace(-1, 6, 1001)[None, :]
    scale = np.exp(log_scale)
    logp = -0.5 * sum((value - mean) ** 2 for value in y) / scale**2 - len(y) * log_scale
    logp = logp - 0.5 * (mean / 20) ** 2 - scale / 10 + log_scale
    weight = np.exp(logp - logp.max())
    return np.array([(weight * mean).sum(), (weight * scale).sum()]) / weight.sum()

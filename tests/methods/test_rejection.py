import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.targets.synthetic import SYNTHETIC


def boxed(name, **settings):
    low, high = zip(*SYNTHETIC[name].view, strict=True)
    return eg.Rejection(low=low, high=high, **settings)


@pytest.mark.parametrize("name", SYNTHETIC)
@pytest.mark.parametrize("given", [True, False], ids=["bound given", "bound found"])
def test_it_samples_the_target_cut_to_its_box(name, given):
    """Against exact draws cut to the same box: E[log π*] agrees, two-sample |z| < 5, failure probability 6e-7."""
    target, entry = eg.targets.get(name), SYNTHETIC[name]
    method = boxed(name, log_bound=entry.log_bound if given else None)
    draws = method.fit(target, jax.random.key(0)).sample(jax.random.key(2), 30_000)
    low, high = np.array(entry.view).T
    assert np.all((draws.unconstrained >= low) & (draws.unconstrained <= high)) and len(draws) == 30_000
    exact = target.draw_exact(jax.random.key(3), 40_000)
    exact = exact[np.all((exact >= low) & (exact <= high), axis=1)]
    a, b = (np.asarray(v, np.float64) for v in (draws.logdensity, jax.jit(jax.vmap(target.density))(exact)))
    assert abs(a.mean() - b.mean()) < 5 * np.sqrt(a.var() / len(a) + b.var() / len(b))


def test_the_papers_ground_truth_is_the_boxs():
    """Section 4.1's "ground truth" for Laplace is 3.31: ±5 around the centre gives 3.32, the target itself 3.386."""
    target = eg.targets.get("laplace")
    draws = boxed("laplace").fit(target, jax.random.key(0)).sample(jax.random.key(1), 100_000)
    assert -draws.logdensity.mean() == pytest.approx(3.32, abs=0.02)


def test_a_low_bound_a_wrong_box_and_a_hopeless_one_are_refused():
    target = eg.targets.get("gaussian")
    with pytest.raises(eg.ConfigError, match="raise it"):
        boxed("gaussian", log_bound=-1.0).fit(target, jax.random.key(0)).sample(jax.random.key(0), 100)
    with pytest.raises(eg.ConfigError, match="3 values for a target of dimension 2"):
        eg.Rejection(low=(0.0, 0.0, 0.0), high=1.0).fit(target, jax.random.key(0))
    with pytest.raises(eg.ConfigError, match="below high"):
        eg.Rejection(low=1.0, high=0.0)
    narrow = eg.Target(lambda x: -0.5 * jnp.sum((x / 1e-4) ** 2), like=jnp.zeros(2))
    hopeless = eg.Rejection(low=-1e3, high=1e3, log_bound=0.0, proposals=64)
    with pytest.raises(eg.ConfigError, match="tighter box"):
        hopeless.fit(narrow, jax.random.key(0)).sample(jax.random.key(0), 10)

"""What every kernel's test of exact stationarity shares: a skewed target with exact draws, and two judgements."""

import jax
import jax.numpy as jnp
import numpy as np

import ergodic as eg
from statistics_ergodic import two_sample_p, z_of_mean


def gumbel_target():
    """x1 ~ Gumbel (skewed), x2 | x1 ~ N(x1²/4, 1): asymmetric, correlated, with exact draws."""
    target = eg.Target(lambda x: -x[0] - jnp.exp(-x[0]) - 0.5 * (x[1] - 0.25 * x[0] ** 2) ** 2, like=jnp.zeros(2))

    def draw(key, n):
        a, b = jax.random.split(key)
        x1 = jax.random.gumbel(a, (n,))
        return jnp.stack([x1, 0.25 * x1**2 + jax.random.normal(b, (n,))], axis=-1)

    return target, draw


def stays_at(after, info, fresh):
    """The moved ensemble cannot be told from fresh exact draws."""
    assert two_sample_p(after.position, fresh) > 1e-4
    assert 0.6 < float(jnp.mean(info.acceptance)) < 0.98  # rejections do happen, so the test means something


def changes_by_noise(before, after):
    """Paired differences of x and x² average to zero."""
    for power in (1, 2):
        change = np.asarray(after.position, np.float64) ** power - np.asarray(before.position, np.float64) ** power
        assert np.abs(z_of_mean(change, 0.0)).max() < 4.5

"""Who drives whom, one by one, from pairs of positions and forces alone; and hints, which may be right or wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.charts.coordinates import plain
from ergodic.charts.drivers import learned, left
from ergodic.charts.fisher import Pairs, left_of
from ergodic.charts.pairing import Assignment, FoundPairs, fit_paired, paired

COUNT = 8
DIM = 2 * COUNT + 1
TAU = 2 * COUNT
NONE = np.zeros((0, 2), int)


def logdensity(x):
    """y_i ~ N(0, e^{2(l_i + t)}) with l_i and t ~ N(0, 1): a centred horseshoe, in the order y, l, t."""
    y, log_scale = x[:COUNT], x[COUNT:TAU] + x[TAU]
    return -0.5 * jnp.sum((y * jnp.exp(-log_scale)) ** 2) - jnp.sum(log_scale) - 0.5 * jnp.sum(x[COUNT:] ** 2)


def horseshoe(seed, n=512):
    """Pairs that are no draws of the target: positions are N(0, 0.5² I)."""
    x = 0.5 * np.random.default_rng(seed).normal(size=(n, DIM))
    return Pairs(x, np.asarray(jax.jit(jax.vmap(jax.grad(logdensity)))(jnp.asarray(x)), np.float64))


def right():
    own = [(COUNT + i, i) for i in range(COUNT)]
    return np.array(own + [(TAU, i) for i in range(COUNT)])


def test_own_and_shared_drivers_are_found():
    """Seeds 0 to 4: every y has its l, and t is for all with the weight that it has."""
    for seed in range(5):
        pairs = horseshoe(seed)
        found = paired(pairs, np.random.default_rng(seed), NONE)
        np.testing.assert_array_equal(found.assignment.driven, np.arange(COUNT))
        np.testing.assert_array_equal(found.assignment.driver, COUNT + np.arange(COUNT))
        assert found.assignment.common == TAU
        assert abs(found.assignment.weight - 1) < 0.05
        assert found.drivers == [*range(COUNT, DIM)]
        assert found.after < 0.1 * found.before


def test_the_log_scale_goes_on_straight_far_from_all_pairs():
    """s is l + t itself: at seven spreads of the pairs the scale is right to a fifth."""
    layer = paired(horseshoe(0), np.random.default_rng(0), NONE).layers[0]
    u = np.zeros((2, DIM))
    u[:, COUNT:TAU] = np.array([[-2.0], [2.0]])
    u[:, TAU] = -1.0, 1.0
    moved = u.copy()
    moved[:, :COUNT] += 1.0
    grown = (layer.forward(moved)[0] - layer.forward(u)[0])[:, :COUNT]
    ratio = np.log(grown[1] / grown[0])
    np.testing.assert_allclose(ratio, 6.0, atol=0.2)


def test_a_mean_of_many_conditional_scales_is_found():
    """y = b e^{-v} to a fifteenth: the coefficient that data hold, y λ = b, without centring."""
    rng = np.random.default_rng(0)
    v = 0.7 * rng.normal(size=(512, 6))
    y = 2 * np.exp(-v) + 0.13 * np.exp(-v) * rng.normal(size=v.shape)
    force = -(y - 2 * np.exp(-v)) * np.exp(2 * v) / 0.13**2
    by_v = -force * -2 * np.exp(-v) + ((y - 2 * np.exp(-v)) * np.exp(v) / 0.13) ** 2 * -1 + 1 - v / 0.49
    pairs = Pairs(np.concatenate([y, v], axis=1), np.concatenate([force, by_v], axis=1))
    layer = fit_paired(pairs, Assignment(np.arange(6), 6 + np.arange(6)))
    inside = pairs.behind(layer)
    assert left_of(inside, inside).mean() < 0.5 * left_of(pairs, pairs).mean()
    u = inside.position[:, :6]
    assert np.abs(np.corrcoef(u.T, v.T)[:6, 6:]).max() < 0.3  # was a curve before


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_found_where_nothing_drives(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(512, DIM))
    assert paired(Pairs(x, -2 * x + 0.1 * rng.normal(size=x.shape)), rng, NONE) is None


def test_a_right_hint_finds_what_few_pairs_do_not_show():
    pairs = horseshoe(0, n=48)
    assert paired(pairs, np.random.default_rng(0), NONE) is None
    found = paired(pairs, np.random.default_rng(0), right())
    np.testing.assert_array_equal(found.assignment.driver, COUNT + np.arange(COUNT))
    assert found.assignment.common == TAU
    assert found.after < 0.5 * found.before


@pytest.mark.parametrize("n", [48, 512])
def test_a_wrong_hint_does_no_harm(n):
    """Drivers shuffled: the same is found as without, or nothing."""
    pairs, wrong = horseshoe(0, n), right()
    wrong[:COUNT, 0] = COUNT + (np.arange(COUNT) + 3) % COUNT
    wrong = wrong[:COUNT]
    like = plain(2, n, DIM, np.dtype(np.float32))
    without = learned([pairs], np.random.default_rng(0), like)
    hinted = learned([pairs], np.random.default_rng(0), like, wrong)
    assert left([pairs], hinted) <= left([pairs], without) + 0.02
    assert any(isinstance(each, FoundPairs) for each in hinted) == (n == 512)


def test_hints_must_name_coordinates():
    with pytest.raises(eg.TargetError, match="there are 17"):
        eg.Target(logdensity, like=jnp.zeros(DIM), hints=[(17, 0)])


def test_a_horseshoe_is_fitted_told_of_and_kept(tmp_path):
    """Certified, and each log scale's variance is right: 4.5 standard errors, nine of them, 6e-5 (fixed seed)."""
    target = eg.Target(logdensity, like=jnp.zeros(DIM))
    sampler = eg.fit(target, jax.random.key(0))
    assert sampler.certificate.passed
    draws = sampler.sample(jax.random.key(1), 4096)
    off = np.abs(np.mean(draws.unconstrained[:, COUNT:] ** 2, axis=0) - 1) / np.sqrt(2 / 4096)
    assert off.max() < 4.5
    assert "x[8..15] drive x[0..7], each its own, together with x[16]" in sampler.chart.summary()
    sampler.save(tmp_path / "horseshoe.ergodic")
    again = eg.load(tmp_path / "horseshoe.ergodic", target).sample(jax.random.key(1), 4096)
    np.testing.assert_array_equal(again.unconstrained, draws.unconstrained)

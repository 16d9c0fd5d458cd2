"""The tests a certificate is made of, one by one, on draws that are right and on draws that are not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.diagnostics.functions import Bounded, Functions, Tails, frame
from ergodic.diagnostics.starts import two_heaps
from ergodic.diagnostics.stationarity import ROWS, Probe
from ergodic.diagnostics.stein import identities, kernel_discrepancy, stein_kernel
from ergodic.statistics.hypotheses import average, smallest, symmetric
from ergodic.tuning.forgetting import Particles
from ergodic.tuning.stepping import Way

N = 4_096
COVARIANCE = np.array([[2.0, 1.5, 0.0], [1.5, 1.6, 0.2], [0.0, 0.2, 0.01 + 0.1]])
PRECISION = jnp.asarray(np.linalg.inv(COVARIANCE), jnp.float32)
NAMES = ("a", "b", "c")


@pytest.fixture(scope="module")
def target():
    return eg.Target(lambda x: -0.5 * x @ PRECISION @ x, like=jnp.zeros(3), names=NAMES)


@pytest.fixture(scope="module")
def exact():
    rng = np.random.default_rng(1)
    return rng.multivariate_normal(np.zeros(3), COVARIANCE, size=N).astype(np.float32)


def look(target, positions):
    value, gradient = jax.device_get(target.density.batched(jnp.asarray(positions)))
    functions = Functions.of(frame(positions, value), NAMES, np.random.default_rng(2))
    return value, gradient, functions


def test_the_frame_whitens_and_strays_do_not_decide_it(target, exact):
    value, _, functions = look(target, exact)
    z = functions.frame.whiten(exact)
    # The outer quarter is left out of the scale, so draws have a common variance above 1 and no correlation.
    assert np.abs(np.corrcoef(z.T) - np.eye(3)).max() < 0.06
    assert np.ptp(z.var(axis=0)) < 0.15 * z.var()
    np.testing.assert_allclose(functions.frame.colour(z), exact, atol=1e-5)
    spoilt, low = exact.copy(), value.copy()
    spoilt[:20] *= 1e4
    low[:20] = -1e8
    np.testing.assert_allclose(frame(spoilt, low).scale, functions.frame.scale, rtol=0.05, atol=0.01)


def test_few_draws_a_dimension_give_a_diagonal_frame():
    x = np.random.default_rng(0).normal(size=(40, 30))
    scale = frame(x, -np.sum(x**2, axis=1)).scale
    assert np.count_nonzero(scale) == 30


def test_bounded_functions_are_bounded(target, exact):
    value, _, functions = look(target, exact)
    values = Bounded.of(functions, exact, value)(exact * 100, value)
    assert values.shape == (N, len(functions.names)) and np.abs(values).max() <= 6


def probed(target, draws):
    """Where a probe takes draws, from the shortest trajectory to the longest."""
    way = Way.on(target)
    blocks = [way.evaluated(draws[at : at + ROWS], way.plain(ROWS)) for at in range(0, len(draws), ROWS)]
    particles = Particles(*(np.concatenate(leaves) for leaves in zip(*blocks, strict=True)))
    probe = Probe.of(way, Particles(*(leaf[:ROWS] for leaf in particles)), jax.random.key(0))
    return list(probe.move(particles, ROWS, jax.random.key(1)).values())


def test_probes_leave_exact_draws_unchanged(target, exact):
    """Exact p-values: fails with probability below 1e-3 for right code (fixed seed)."""
    value, _, functions = look(target, exact)
    probes = probed(target, exact)
    assert len(probes) > 1 and all(p.acceptance.mean() > 0.7 for p in probes)
    half = N // 2
    tails = Tails.of(NAMES, exact[:half], value[:half])
    for p in probes:
        change = functions(p.position, p.logdensity) - functions(exact, value)
        assert smallest(symmetric(change).p_value) > 1e-3
        outside = tails(p.position[half:], p.logdensity[half:]) - tails(exact[half:], value[half:])
        assert smallest(symmetric(outside).p_value) > 1e-3


@pytest.mark.parametrize("spoil", [lambda x: 1.1 * x, lambda x: x + np.float32([0, 0, 0.05])])
def test_probes_and_identities_see_a_wrong_scale_and_a_wrong_place(target, exact, spoil):
    wrong = spoil(exact)
    value, gradient, functions = look(target, wrong)
    longest = probed(target, wrong)[-1]
    moved = functions(longest.position, longest.logdensity) - functions(wrong, value)
    assert smallest(symmetric(moved).p_value) < 2e-3
    assert smallest(average(identities(functions, NAMES, wrong, gradient).values).p_value) < 1e-6


def test_identities_hold_for_exact_draws(target, exact):
    """|z| of some 60 identities: fails with probability below 1e-3 for right code (fixed seed)."""
    _, gradient, functions = look(target, exact)
    found = identities(functions, NAMES, exact, gradient)
    assert found.values.shape == (N, len(found.names))
    assert smallest(average(found.values).p_value) > 1e-3


def test_the_stein_kernel_is_what_autodiff_gives():
    """h(x, y) = s(x)·s(y) k + s(x)·∂_y k + s(y)·∂_x k + ∂_x·∂_y k, to rounding in float64."""
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        z, force = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
        distance = np.sum((z[:, None] - z[None]) ** 2, axis=-1)
        length = np.median(distance) + 1e-12

        def kernel(x, y):
            return (1 + jnp.sum((x - y) ** 2) / length) ** -0.5

        def h(x, y, s, t):
            cross = jax.jacfwd(jax.grad(kernel, 1), 0)(x, y)
            return s @ t * kernel(x, y) + s @ jax.grad(kernel, 1)(x, y) + t @ jax.grad(kernel)(x, y) + jnp.trace(cross)

        found = stein_kernel(z, force)
        for i in range(5):
            for j in range(5):
                assert found[i, j] == pytest.approx(float(h(z[i], z[j], force[i], force[j])), rel=1e-9)


def test_the_kernel_discrepancy_has_level_and_power():
    """200 exact samples: p < 0.05 in at most 24 of them (binomial tail 1e-4); a mean off by 0.3 sd is always seen."""
    rng = np.random.default_rng(3)
    p_values = []
    for _ in range(200):
        z = rng.normal(size=(100, 2))
        p_values.append(kernel_discrepancy(z, -z, rng, bootstraps=199)[1])
    assert np.sum(np.array(p_values) < 0.05) <= 24
    z = rng.normal(0.3, 1, size=(300, 2))
    assert kernel_discrepancy(z, -z, rng)[1] == 1 / 9991


def test_two_heaps_are_found():
    rng = np.random.default_rng(0)
    direction = np.array([0.6, 0.8, 0.0])
    x = rng.normal(size=(5000, 3)) + 5 * rng.choice([-1, 1], size=(5000, 1)) * direction
    found_frame = frame(x, np.zeros(5000))
    found = two_heaps(found_frame, x)
    shift = found @ found_frame.scale.T  # in x
    assert abs(shift @ direction) / np.linalg.norm(shift) > 0.98

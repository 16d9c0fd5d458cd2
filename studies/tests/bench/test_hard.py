"""Hard faults: exact draws are exact, and what is planted is what the sampler does."""

import jax
import numpy as np
import pytest

from ergodic_studies.bench import hard_targets as on
from ergodic_studies.bench.hard_faults import CASES, halved


def case(fault, name, dim):
    (found,) = (each for each in CASES if (each.fault, each.name, each.dim) == (fault, name, dim))
    return found


@pytest.mark.parametrize("posed", [on.hierarchy(10), on.funnel(3), on.modes(2, 0.98), on.student(2)])
def test_exact_draws_obey_steins_identities(posed):
    """E[x_i ∂_i log π] = -1 for every coordinate, within 5 errors: one of all 17 is beyond by a chance of 1e-5."""
    x = posed.draw(np.random.default_rng(2), 40_000).astype(np.float32)
    force = np.asarray(posed.target.density.batched(jax.numpy.asarray(x))[1], np.float64)
    each = x * force + 1
    np.testing.assert_array_less(np.abs(each.mean(axis=0)), 5 * each.std(axis=0) / np.sqrt(len(x)))


def test_a_planted_neck_is_never_entered_and_is_found_beyond_the_draws():
    """Of the 2,048 draws that are certified 40 belong in the neck: it passes by a chance below 1e-6."""
    cut = case("neck cut at its 2 % quantile", "funnel", 2)
    sampler, limit = cut.sampler(jax.random.key(1)), cut.posed().quantile(0, 0.02)
    assert sampler.target is cut.posed().target
    draws = sampler.sample(jax.random.key(2), 4096, progress=False)
    assert draws.unconstrained[:, 0].min() >= limit and draws.unconstrained[:, 0].min() < limit + 1
    right = np.asarray(sampler.target.density.batched(jax.numpy.asarray(draws.unconstrained))[0])
    np.testing.assert_allclose(draws.logdensity, right, rtol=1e-4, atol=1e-3)
    certificate = sampler.certify(jax.random.key(3), draws=2048)
    assert certificate.passed is False
    failed = [finding for finding in certificate.findings if finding.verdict == "failed"]
    assert any("draws have x1 <" in finding.words for finding in failed) or failed[0].group == "stein"


def test_half_a_schedule_has_half_of_the_transitions_and_all_landings():
    sampler = case("", "gaussian", 2).sampler(jax.random.key(1))
    whole, half = sampler.params.schedule, halved(sampler.params).schedule
    assert half.varied.sum() == whole.varied.sum() // 2 and half.varied[-1] == 0
    assert (half.varied == 0).sum() == (whole.varied == 0).sum() >= 2

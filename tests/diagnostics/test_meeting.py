"""Coupled chains: the bias of a chain that is too short, and limits that hold."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy import stats

import ergodic as eg
from ergodic.diagnostics.gathering import Gathered
from ergodic.diagnostics.lengthening import as_asked
from ergodic.diagnostics.limits import total_variation, wasserstein
from ergodic.diagnostics.meeting import PASSES, Meeting, Moments
from ergodic.diagnostics.meeting_tests import _averaged, other_starts
from ergodic.kernels.coupled import Pairs
from ergodic.kernels.ensemble import Ensemble
from ergodic.runtime.errors import ConfigError
from ergodic.runtime.programs import Cost
from ergodic.statistics.hypotheses import smallest


@pytest.mark.parametrize("often", [0.004, 0.05, 0.4])
def test_limits_hold_with_their_confidence(often):
    """Passes after the first are 0 or geometric. Of 1,000 limits 50 may be too low; 85 are by a chance of 3e-6."""
    rng, mean, low = np.random.default_rng(0), often / 0.6, np.zeros(2)
    for _ in range(1000):
        passes = 1 + np.where(rng.random(256) < often, rng.geometric(0.6, size=256), 0)
        low += [total_variation(passes, 1, 0.95) < mean, total_variation(passes, 2, 0.95) < 0.4 * mean]
    assert low.max() < 85 and stats.binom.sf(84, 1000, 0.05) < 3e-6


def test_limits_hold_where_late_pairs_meet_at_a_lower_rate():
    """A few in a hundred are slow. Of 400 limits 20 may be too low for each of three lengths; 39 are by 7e-5."""
    rng, low, many = np.random.default_rng(1), np.zeros(3), 10**6

    def passes(n):
        kind, times = rng.random(n), (rng.geometric(rate, size=n) for rate in (0.6, 0.2))
        return 1 + np.where(kind < 0.8, 0, np.where(kind < 0.97, *times))

    means = [np.maximum(0, passes(many) - t).mean() for t in (1, 2, 3)]
    for _ in range(400):
        seen = passes(1024)
        low += [total_variation(seen, t, 0.95) < mean for t, mean in zip((1, 2, 3), means, strict=True)]
    assert low.max() < 39 and stats.binom.sf(38, 400, 0.05) < 7e-5


def test_wasserstein_limits_hold_with_their_confidence():
    """Pairs are apart by a normal distance until they meet. Of 400 limits 20 may be too low; 39 are by 7e-5."""
    rng, low = np.random.default_rng(2), np.zeros(2)
    for _ in range(400):
        passes = 1 + np.where(rng.random(512) < 0.3, rng.geometric(0.6, size=512), 0)
        together = np.arange(1, 8)[:, None] < passes
        apart = np.where(together, np.abs(rng.normal(size=together.shape)), 0)
        means = [0.3 / 0.6 * np.sqrt(2 / np.pi), 0.3 * 0.4 / 0.6 * np.sqrt(2 / np.pi)]
        low += [wasserstein(passes, apart, t, 0.95, 1.0) < 0.995 * means[t - 1] for t in (1, 2)]
    assert low.max() < 39
    assert wasserstein(np.ones(512, int), np.zeros((7, 512)), 1, 0.95, 2.0) > 2 * 3 / 512


def test_a_limit_is_never_below_what_few_pairs_can_tell():
    assert total_variation(np.ones(512, int), 1, 0.95) > 3 / 512
    assert total_variation(np.full(512, 2), 1, 0.95) == 1.0


def meeting_of(sampler, pairs):
    seen = Gathered(sampler)
    seen.stage(8 * pairs, jax.random.key(5))
    seen.meet(sampler.method, jax.random.key(6))
    return seen


def shortened(sampler, steps, scale):
    """The sampler with few of its transitions, from a P0 that is too narrow."""
    params, schedule = sampler.params, sampler.params.schedule
    last = np.r_[0 : steps - 1, len(schedule.step) - 1]
    schedule = type(schedule)(*(None if leaf is None else leaf[last] for leaf in schedule))
    initial = params.initial._replace(centres=params.initial.centres * scale, chart=params.initial.chart.times(scale))
    return replace(sampler, params=params._replace(schedule=schedule, initial=initial), certificate=None, gathered=None)


@pytest.fixture(scope="module")
def sampler():
    return eg.fit(eg.targets.get("gaussian"), jax.random.key(0), eg.GEI(certify=False), progress=False)


@pytest.mark.parametrize("times", [1, 2])
def test_the_bias_of_a_short_chain_is_what_coupled_chains_say(sampler, times):
    """Estimates of E[x²] - E_P[x²] against exact moments of the target, within 4.5 errors: once in 10^5.

    Of the chain gone through twice, too, from pairs that were a single pass ahead.
    """
    short = shortened(sampler, 2, 0.3)
    seen = meeting_of(short, 1024)
    look = Moments.of(short.target.names, seen.usable.position)
    off = seen.meeting.bias(look, times)
    exact = np.asarray(short.target.truth.draw(jax.random.key(1), 100_000))
    longer = replace(short, params=short.method.longer(short.params, times))
    drawn = longer.sample(jax.random.key(2), 100_000, progress=False).unconstrained
    wanted, error = look(exact).mean(axis=0) - look(drawn).mean(axis=0), off.std(axis=0) / np.sqrt(len(off))
    assert np.abs(wanted[short.target.dim :]).max() > (0.1 if times == 1 else 0.01)
    np.testing.assert_array_less(np.abs(off.mean(axis=0) - wanted), 4.5 * np.sqrt(error**2 + 2 / 100_000))


def test_a_chain_is_gone_through_as_often_as_its_pairs_ask_for(sampler):
    """Its second moments are off by less than half of what they were, and by .1 sd at most; 4.5 errors of n are .03."""
    short = shortened(sampler, 3, 0.6)
    slow = short.params.schedule._replace(step=short.params.schedule.step / 2)
    short = replace(short, params=short.params._replace(schedule=slow))
    certificate = short.certify(jax.random.key(3))
    assert certificate.passed is None and certificate.passes > 1 and as_asked(short.method, sampler, Cost()) is sampler
    longer = as_asked(short.method, short, Cost())
    assert len(longer.params.schedule.step) == 3 * certificate.passes
    pairs = len(longer.gathered.meeting)
    assert longer.certify(jax.random.key(4)).passed and longer.certificate.passes == 1
    assert len(longer.gathered.meeting) == pairs  # which were not followed again
    truth = np.asarray(sampler.target.truth.draw(jax.random.key(1), 400_000), np.float64) ** 2
    once, more = (one.sample(jax.random.key(2), 20_000, progress=False).unconstrained for one in (short, longer))
    off = [np.abs((x**2).mean(axis=0) - truth.mean(axis=0)) / truth.std(axis=0) for x in (once, more)]
    assert off[1].max() < 0.1 and off[1].max() < 0.5 * off[0].max() + 0.03


def test_a_short_chain_fails_by_its_coupled_chains_and_the_long_one_has_a_bound(sampler):
    short = shortened(sampler, 2, 0.3)
    found = {finding.name: finding.verdict for finding in short.certify(jax.random.key(3), draws=2048).findings}
    assert "failed" in found.values()
    certificate = sampler.certify(jax.random.key(3), draws=4096)
    assert certificate.passed and "bound: total variation" in certificate.summary()
    bound = certificate.bound
    assert 0 < bound.total_variation < 0.5 and bound.pairs == 512 and bound.confidence == 0.95
    assert all(a >= b for a, b in zip(bound.curve, bound.curve[1:], strict=False)) and bound.curve[2] < 0.02
    exact = np.asarray(sampler.target.truth.draw(jax.random.key(1), 40_000))
    drawn = sampler.sample(jax.random.key(2), 40_000, progress=False).unconstrained
    off = np.abs(drawn.mean(axis=0) - exact.mean(axis=0)) / exact.std(axis=0)  # a coordinate rises by no more than |x|
    assert off.max() < bound.wasserstein[0] + 4 * np.sqrt(2 / 40_000)
    assert type(certificate).from_dict(certificate.to_dict()) == certificate


def finding(shares, high=0.0, pairs=1000):
    """What is said of other starts of which these shares are left after every pass, at log π* of so much."""
    meeting = Meeting()
    states = [
        Pairs(*[Ensemble(np.zeros((pairs, 1)), np.full(pairs, high), np.zeros((pairs, 1)))] * 2, met)
        for met in (np.arange(pairs) >= share * pairs for share in shares)
    ]
    meeting.add(states)
    return other_starts(meeting, np.linspace(-1, 1, 100), 1e-4)[0]


def test_other_starts_join_the_draws_or_live_elsewhere_or_say_nothing():
    assert finding([0.5, 0.2, 0.1, 0.04, 0.02, 0.01]).verdict == "passed"
    elsewhere = finding([0.5, 0.3, 0.21, 0.2, 0.2, 0.2])
    assert elsewhere.verdict == "failed" and "20.0% are somewhere else" in elsewhere.words
    assert finding([0.9, 0.8, 0.7, 0.6, 0.4, 0.28]).verdict == "inconclusive"
    lost = finding([1.0] * 6, high=-1e6)
    assert lost.verdict == "inconclusive" and "100.0% come to nowhere" in lost.words


def test_few_late_pairs_fail_no_sound_chain():
    """Twelve of 256 rows are not 0, ±1 by a fair coin: of 2,000 at a level of 4e-4 six fail by a chance of 3e-4."""
    rng, failed = np.random.default_rng(3), 0
    for _ in range(2000):
        off = np.zeros((256, 20))
        off[:12] = rng.choice([-1.0, 1.0], size=(12, 20))
        failed += smallest(_averaged(off).p_value) < 4e-4
    assert failed < 6 and stats.binom.sf(5, 2000, 4e-4) < 3e-4


def test_a_distance_makes_a_chain_as_long_as_it_takes(sampler):
    target = eg.targets.get("gaussian")
    near = eg.fit(target, jax.random.key(0), distance=0.02, progress=False)
    assert near.certificate.passed and near.certificate.bound.total_variation <= 0.02
    assert near.method.transitions(near.params) > sampler.method.transitions(sampler.params)
    with pytest.raises(ConfigError, match="between 0 and 1"):
        eg.fit(target, jax.random.key(0), distance=2.0)
    with pytest.raises(ConfigError, match="can be coupled"):
        eg.fit(target, jax.random.key(0), eg.HEI(), distance=0.1)


def test_pairs_that_never_meet_leave_no_bound():
    def apart(met):
        state = [Ensemble(np.zeros((4, 1)) + shift, np.zeros(4), np.zeros((4, 1))) for shift in (0, 1)]
        return Pairs(*state, np.array(met))

    meeting = Meeting()
    meeting.add([apart([True, False, False, False]), *[apart([True, True, True, False])] * 5])
    assert meeting.bound(0.95, 0, lambda u: u) is None
    np.testing.assert_allclose(meeting.unmet(), [0.75] + [0.25] * (PASSES - 1))
    np.testing.assert_array_equal(meeting.passes, [1, 2, 2, PASSES + 1])


def test_late_pairs_are_run_on_and_then_there_is_a_bound():
    """Row i of what is late meets in the i-th pass more; what goes along to fill the program does not count."""
    x = np.zeros((8, 1)) + np.arange(8)[:, None]
    ends = Ensemble(x, np.zeros(8), x)
    meeting = Meeting()
    meeting.add([Pairs(ends, ends, np.arange(8) < 5)] * PASSES)

    def move(pairs):
        assert len(pairs.met) == 4
        return pairs._replace(met=pairs.first.position[:, 0] < 5 + len(meeting.later) + 1)

    while meeting.late is not None:
        assert meeting.bound(0.95, 0, lambda u: u) is None
        meeting.run_on(move, 4)
    np.testing.assert_array_equal(meeting.passes, [1] * 5 + [PASSES + 1, PASSES + 2, PASSES + 3])
    bound = meeting.bound(0.95, 0, lambda u: u)
    assert bound.means[0] == np.maximum(0, meeting.passes - 1).mean() and len(bound.wasserstein) == PASSES


def test_the_bias_of_pairs_that_stay_apart_is_told_by_where_they_began_and_ended():
    """Of 2,000 pairs that never meet, mean 0.5 within 5 errors (1 in 10^6), and no error of six noisy terms."""
    rng, n, meeting = np.random.default_rng(2), 2000, Meeting()

    def ensemble(shift):
        x = rng.normal(shift, 1, (n, 1))
        return Ensemble(x, np.zeros(n), x)

    met = np.zeros(n, bool)
    meeting.add([Pairs(ensemble(0), ensemble(-0.5 if k == 0 else 0), met) for k in range(PASSES)])
    off = meeting.bias(Moments(np.zeros(1), np.ones(1), ("x", "x²")))[:, 0]
    assert off.std() < 1.7  # √2, where the sum of all terms has √12
    assert abs(off.mean() - 0.5) < 5 * off.std() / np.sqrt(n)

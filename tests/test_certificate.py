"""Certificates: verdicts, what they say, and that a sampler keeps them."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.certificate import Certificate, Finding
from ergodic.runtime.programs import Cost
from ergodic_studies.bench.planted import CASES, chain, gaussian


@pytest.fixture(scope="module")
def sound():
    return chain(eg.HEI(steps=15), gaussian(2), steps=15)


@pytest.fixture(scope="module")
def passed(sound):
    return sound.certify(jax.random.key(0), draws=3_000)


def anew(sampler):
    """The same sampler, of which nothing has been seen."""
    return replace(sampler, certificate=None, draws=None, gathered=None)


def named(certificate, name):
    return next(finding for finding in certificate.findings if finding.name == name)


def verdict_of(*verdicts):
    findings = tuple(Finding("health", f"test {i}", verdict, "words") for i, verdict in enumerate(verdicts))
    return Certificate(findings, 10, 0.02, Cost(), 1).verdict


def test_one_failure_fails_and_one_doubt_is_inconclusive():
    assert verdict_of("passed", "noted") == "passed"
    assert verdict_of("passed", "inconclusive", "noted") == "inconclusive"
    assert verdict_of("inconclusive", "failed", "passed") == "failed"


def test_a_sound_sampler_passes(passed):
    """Level 0.02, fixed seed."""
    assert passed.passed is True and passed.verdict == "passed", passed.summary()
    assert passed.advice() == ()
    groups = {finding.group for finding in passed.findings}
    assert groups == {"health", "stationarity", "stein", "start"}


def test_it_costs_less_than_six_times_the_draws(passed, sound):
    assert passed.drawing == 6 * 512 * sound.depth  # whole chunks
    assert passed.cost.gradients < 6 * passed.drawing


def test_the_summary_says_every_test_and_the_verdict(passed):
    text = passed.summary()
    for finding in passed.findings:
        assert finding.name in text and finding.words in text
    assert "certificate: passed (3,000 fresh draws" in text


@pytest.mark.parametrize(
    ("case", "test"),
    [
        ("chain too short", "Stein identities"),
        ("one of two modes missed", "start: inflated"),
        ("scale wrong by 10 %", "Stein identities"),
        ("wrong momentum variance in the acceptance", "Stein identities"),
    ],
)
def test_planted_faults_are_found_and_named(case, test):
    """The calibration has all of them, with its rates: `ergodic bench certificate`."""
    sampler = next(c for c in CASES if c.name == case).sampler(2)
    certificate = sampler.certify(jax.random.key(1), draws=8_000)
    assert certificate.passed is False
    assert named(certificate, test).verdict == "failed", certificate.summary()
    assert certificate.advice()


def test_the_function_that_still_moves_is_named():
    """P0 = N((0, 3), 1) and one small step: the second coordinate has to go down."""
    sampler = chain(eg.HEI(steps=1), gaussian(2), mean=np.array([0.0, 3.0]), scale=1.0, steps=1, time=0.3)
    finding = next(f for f in sampler.certify(jax.random.key(0), draws=2_000).findings if f.verdict == "failed")
    assert "x[1]" in finding.words or "log π" in finding.words


def test_a_file_keeps_the_certificate(tmp_path, sound, passed):
    sound = anew(sound)
    assert sound.sample(jax.random.key(1), 10).attributes["certificate"] == "none"
    certificate = sound.certify(jax.random.key(0), draws=3_000)
    sound.save(tmp_path / "a.ergodic")
    again = eg.load(tmp_path / "a.ergodic", sound.target)
    assert again.certificate == certificate
    assert len(again.draws) == 3_000 and again.draws.kind == "independent"
    np.testing.assert_array_equal(again.draws.unconstrained, sound.draws.unconstrained)
    draws = again.sample(jax.random.key(1), 10)
    assert draws.attributes["certificate"] == certificate.verdict
    assert draws.to_arviz().posterior.attrs["certificate"] == certificate.verdict


def test_methods_without_a_chain_cannot_be_certified_free_of_missed_modes():
    target = gaussian(2)
    exact = eg.fit(target, jax.random.key(0), eg.MeanField(iterations=300, learning_rate=0.05, initial_scale=0.9))
    certificate = exact.certify(jax.random.key(1), draws=2_000)
    assert named(certificate, "start dependence").verdict == "inconclusive"
    assert certificate.passed is not True


def test_correlated_draws_are_thinned_to_what_they_are_worth():
    sampler = eg.fit(gaussian(2), jax.random.key(0), eg.NUTS(warmup=200))
    certificate = sampler.certify(jax.random.key(1), draws=2_000)
    assert certificate.verdict == "inconclusive", certificate.summary()


def test_draws_outside_the_support_fail():
    target = eg.Target(lambda x: jnp.where(x[0] > 0, -0.5 * jnp.sum(x**2), -jnp.inf), like=jnp.zeros(2))
    certificate = chain(eg.HEI(steps=1), target, steps=1, time=0.1).certify(jax.random.key(0), draws=2_000)
    assert named(certificate, "finite values").verdict == "failed"


def test_stray_draws_fail():
    """A cliff: some of a wide P0 start where every move is rejected, and stay there."""
    target = eg.Target(lambda x: jnp.sum(2 * x - jnp.exp(x)), like=jnp.zeros(2))
    certificate = chain(eg.HEI(steps=20), target, scale=3.0, steps=20).certify(jax.random.key(0), draws=2_000)
    assert named(certificate, "stray draws").verdict == "failed"


@pytest.mark.parametrize("wrong", [{"draws": 0}, {"draws": 10}, {"level": 0.0}, {"level": 1.5}])
def test_bad_settings_are_refused(sound, wrong):
    with pytest.raises(eg.ConfigError):
        sound.certify(jax.random.key(0), **wrong)


def test_too_few_draws_are_inconclusive_at_best(sound):
    certificate = anew(sound).certify(jax.random.key(0), draws=200)
    assert certificate.passed is None and "number of draws" in {f.name for f in certificate.findings}
    sound.certificate = None


def test_certifying_twice_with_one_key_says_the_same(sound, passed):
    again = anew(sound).certify(jax.random.key(0), draws=3_000)
    sound.certificate = None
    assert [f.statistic for f in again.findings] == [f.statistic for f in passed.findings]
    assert np.isclose(again.cost.compile_seconds, 0, atol=0.05)


def test_clear_failure_ends_it_at_the_first_stage():
    """A scale wrong by half is seen on the first 512 draws: nothing is spent on other starts."""
    sampler = next(c for c in CASES if c.name == "scale wrong by 10 %").sampler(2)
    wrong = replace(sampler, target=eg.Target(lambda x: -2.0 * x @ x, like=jnp.zeros(2)))
    certificate = wrong.certify(jax.random.key(0))
    assert certificate.passed is False and certificate.draws == 512
    assert not any(finding.group == "start" for finding in certificate.findings)


def test_what_cannot_be_afforded_is_inconclusive_and_can_be_gone_on_with(sound):
    sampler = anew(sound)
    short = sampler.certify(jax.random.key(0), budget=1e-9)
    assert short.passed is None and short.draws == 0 and "budget=seconds" in short.summary()
    some = sampler.certify(jax.random.key(1), draws=1_100)
    more = sampler.certify(jax.random.key(2), draws=2_000)
    assert more.passed is True and more.draws == 3_100 == len(sampler.draws)
    assert more.cost.gradients > some.cost.gradients > short.cost.gradients


def test_a_budget_must_be_positive(sound):
    with pytest.raises(eg.ConfigError, match="budget"):
        sound.certify(jax.random.key(0), budget=0.0)

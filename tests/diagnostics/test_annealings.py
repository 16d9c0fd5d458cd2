"""Weighted draws: two annealings must agree, and weights that are wrong are found."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import ergodic as eg
from ergodic.diagnostics.annealings import annealed_again
from ergodic.diagnostics.gathering import Gathered
from ergodic.methods.schedule import Schedule, retimed
from ergodic.runtime.noise import generator


@pytest.fixture(scope="module")
def seen():
    """4,096 runs of an annealed chain on two half moons."""
    method = eg.GEI(anneal=True, certify=False)
    gathered = Gathered(eg.fit(eg.targets.get("dual-moon"), jax.random.key(0), method, progress=False))
    gathered.stage(4096, jax.random.key(1))
    return gathered


def finding(seen, key):
    functions = seen.functions(generator(jax.random.key(2)))
    (found,) = annealed_again(seen, seen.sampler.method, functions, 1e-3, key)
    return found


def test_other_temperatures_give_the_same_weights(seen):
    """Each fails by a chance of 1e-3 where weights are right: one of four by 4e-3. The keys are fixed."""
    for key in jax.random.split(jax.random.key(3), 4):
        assert finding(seen, key).verdict == "passed"


def test_weights_of_one_mode_that_are_off_are_found(seen):
    """Half of a moon's weight is lost: its share is 0.33 for 0.5, with errors of about 0.015."""
    draws = seen.draws
    lost = np.where(draws.unconstrained[:, 0] > 0, np.log(0.5), 0.0)
    weight = draws.stats["log_weight"] + lost.astype(np.float32)
    wrong = Gathered(seen.sampler)
    wrong.draws, wrong.usable = replace(draws, stats=draws.stats | {"log_weight": weight}), seen.usable
    found = finding(wrong, jax.random.key(4))
    assert found.verdict == "failed" and found.advice and "by another" in found.words


def test_a_certificate_of_weighted_draws_says_so(seen):
    certificate = replace(seen.sampler, gathered=None).certify(jax.random.key(5), draws=2000)
    (found,) = (each for each in certificate.findings if each.name == "other temperatures")
    assert found.verdict == "passed" and "log Z is" in found.words


def test_other_temperatures_are_as_many_and_later():
    beta = np.array([0.1, 0.3, 0.6, 1.0, 1.0], np.float32)
    steps = np.arange(5, dtype=np.float32)
    other = retimed(Schedule(steps, steps, steps, beta))
    assert other.beta.shape == beta.shape and other.beta[3] == other.beta[4] == 1
    assert (np.diff(np.append(0, other.beta)[:5]) > 0).all() and (other.beta[:3] < beta[:3]).all()
    assert other.step[4] == 4 and (np.diff(other.step) >= 0).all()

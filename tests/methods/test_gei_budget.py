"""What the default may cost: one program, limits that are kept, and draws that are not thrown away."""

import signal
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.methods import gei as module
from ergodic.runtime import programs
from ergodic.tuning.greedy_settings import GreedySettings

KEY = jax.random.key(0)


def skewed(name="skewed", dim=3):
    return eg.Target(lambda x: jnp.sum(-x - jnp.exp(-x)), like=jnp.zeros(dim), name=name)


def slow(seconds):
    """A density whose every evaluation of an ensemble takes a while."""

    def wait(x):
        time.sleep(seconds)
        return np.zeros_like(x)

    def logdensity(x):
        value = -0.5 * jnp.sum(x**2)
        nothing = jax.pure_callback(
            wait, jax.ShapeDtypeStruct((), x.dtype), jax.lax.stop_gradient(x[0]), vmap_method="broadcast_all"
        )
        return value + jnp.zeros_like(value) * jax.lax.stop_gradient(jnp.sum(nothing))

    return eg.Target(logdensity, like=jnp.zeros(2), name="slow")


def test_tuning_certifying_and_drawing_share_one_program():
    before = set(programs._programs)
    sampler = eg.fit(skewed(), KEY, progress=False)
    sampler.sample(jax.random.key(1), 700, progress=False)
    sampler.sample(jax.random.key(1), 2_000, progress=False)
    names = [identity[0].__name__ for identity in set(programs._programs) - before]
    assert names.count("_step") == 1 and "go_on" not in names and "_begin" not in names


def test_certified_draws_are_kept_and_are_right():
    """|z| < 5 for three means: fails with probability 2e-6."""
    sampler = eg.fit(skewed(), KEY, progress=False)
    draws = sampler.draws
    assert len(draws) == sampler.certificate.draws >= 1_024 and draws.independent
    z = (draws.unconstrained.mean(axis=0) - np.euler_gamma) / (np.pi / np.sqrt(6 * len(draws)))
    assert np.abs(z).max() < 5


def test_gradients_are_limited():
    sampler = eg.fit(skewed(), KEY, max_gradients=20_000, progress=False)
    assert sampler.cost.gradients < 40_000 and sampler.certificate.passed is not True
    assert "goes on" in sampler.certificate.summary()


def test_seconds_are_limited_and_the_best_so_far_is_returned():
    """Not a timing: without a limit this density would take about a hundred times as many evaluations."""
    seen = eg.fit(slow(0.05), KEY, max_seconds=3.0, progress=False)
    assert seen.cost.run_seconds < 60 and len(seen.record["step"]) >= 1


def test_other_methods_keep_no_budget():
    with pytest.raises(eg.ConfigError, match="HEI keeps no budget"):
        eg.fit(skewed(), KEY, eg.HEI(iterations=2), max_seconds=1.0)


def test_ctrl_c_returns_the_best_so_far(monkeypatch, ctrl_c):
    judged = module.GEI._judged

    def pressed(self, sampler, key, attempt, budget):
        signal.raise_signal(signal.SIGINT)
        return judged(self, sampler, key, attempt, budget)

    monkeypatch.setattr(module.GEI, "_judged", pressed)
    sampler = eg.fit(skewed(), KEY, progress=False)
    assert sampler.certificate.passed is None and sampler.certificate.draws == 0 and sampler.draws is None


def test_a_dear_density_has_fewer_particles(monkeypatch):
    monkeypatch.setattr(module, "_seconds", lambda way, ensemble, particles: particles * 1e-3)
    sampler = eg.fit(skewed(), KEY, eg.GEI(certify=False), progress=False)
    assert sampler.params.initial.centres.shape[0] == 128


def test_a_density_that_makes_many_bytes_has_few_particles_from_the_beginning():
    """Without a second program: what a gradient makes is known before it is compiled."""
    settings = [eg.GEI(certify=False, details=GreedySettings(heavy=heavy)) for heavy in (10.0, 1e12)]
    found = [eg.fit(skewed(), KEY, method, progress=False).params.initial.centres.shape[0] for method in settings]
    assert found == [128, 512]

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.tuning import ascent
from ergodic.tuning.emlbo import Emlbo


@pytest.mark.parametrize("constraint", ["keep", "project"])
def test_entropy_never_falls_below_the_floor(constraint):
    """A P0 far too wide wants to shrink at once."""
    method = eg.HEI(initial_scale=5.0, constraint=constraint, iterations=20)
    sampler = eg.fit(eg.targets.get("gaussian"), jax.random.key(0), method)
    floor = float(method.initial(sampler.target).entropy())
    assert np.all(sampler.record["entropy"] >= floor - 1e-4)
    assert float(sampler.params.initial.entropy()) >= floor - 1e-4


def test_without_a_floor_entropy_falls():
    method = eg.HEI(initial_scale=5.0, entropy_floor=None, iterations=20)
    record = eg.fit(eg.targets.get("gaussian"), jax.random.key(0), method).record
    assert record["entropy"][-1] < record["entropy"][0] - 0.5


def test_p0_can_be_held():
    method = eg.HEI(tune_initial=False, iterations=5)
    sampler = eg.fit(eg.targets.get("laplace"), jax.random.key(0), method)
    begin = method.initial(sampler.target)
    np.testing.assert_array_equal(sampler.params.initial.mean, begin.mean)
    np.testing.assert_array_equal(sampler.params.initial.log_scale, begin.log_scale)


def test_the_record_has_a_row_an_iteration(gaussian_sampler):
    record, method = gaussian_sampler.record, gaussian_sampler.method
    assert set(record) == {
        *("objective", "final", "elbo", "entropy", "acceptance"),
        *("nonfinite", "step_size", "momentum_variance"),
    }
    for name in ("objective", "final", "elbo", "entropy", "nonfinite"):
        assert record[name].shape == (method.iterations,)
    for name in ("acceptance", "step_size", "momentum_variance"):
        assert record[name].shape == (method.iterations, method.steps)
    np.testing.assert_allclose(record["objective"], record["final"] + record["elbo"], rtol=1e-5)
    assert np.all((record["step_size"][0] > 0.009) & (record["step_size"][0] < 0.026))  # U(0.01, 0.025)
    assert np.all(record["momentum_variance"][0] == 1)
    assert record["final"][-10:].mean() > record["final"][0] + 1  # it learnt


def test_ctrl_c_keeps_what_was_learnt(monkeypatch, caplog):
    """The interrupt comes in the seventh iteration; six rows and their parameters stay."""
    real, calls = jax.device_get, []

    def interrupting(tree):
        calls.append(1)
        if len(calls) == 7:
            raise KeyboardInterrupt
        return real(tree)

    monkeypatch.setattr(ascent.jax, "device_get", interrupting)
    target = eg.targets.get("gaussian")
    method = eg.HEI()
    begin = method.untuned(target, jax.random.key(0)).params
    objective = Emlbo(method.kernel, 20, "frozen-force", "keep", True)
    params, record, _ = ascent.maximise(
        objective, target.density, begin, jax.random.key(1), iterations=50, learning_rate=0.1, numbers=(-1e9,)
    )
    assert len(record["objective"]) == 6
    assert "interrupted" in caplog.text
    assert not np.allclose(params.transitions.log_step, begin.transitions.log_step)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(params))


def test_adam_is_the_papers(x64):
    """One iteration from known gradients: the first Adam step is the learning rate times the gradient's sign."""
    target = eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(2, jnp.float64))
    method = eg.HEI(iterations=1, learning_rate=0.05, entropy_floor=None)
    key = jax.random.key(5)
    before = method.untuned(target, jax.random.split(key, 3)[0]).params
    after = method.fit(target, key).params
    moved = jax.tree.leaves(jax.tree.map(lambda a, b: np.abs(np.asarray(a - b)), after, before))
    for leaf in moved:
        np.testing.assert_allclose(leaf, 0.05, rtol=1e-3)  # up to ε

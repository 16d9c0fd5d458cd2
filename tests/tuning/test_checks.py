import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.tuning.checks import check_target
from ergodic.tuning.forgetting import Particles
from ergodic.tuning.stuck import why_stuck

KEY = jax.random.key(0)


def statuses(logdensity, like=None):
    target = eg.Target(logdensity, like=jnp.zeros(2) if like is None else like)
    return {check.name: (check.status, check.message) for check in check_target(target, KEY)}


BAD = {
    "nan": (lambda x: jnp.sum(jnp.log(-(x**2))), "NaN at every"),
    "minus infinity": (lambda x: jnp.where(x[0] > 1e6, 0.0, -jnp.inf), "-inf at every.*initial_mean"),
    "plus infinity": (lambda x: -jnp.log(jnp.zeros(())) + 0 * x[0], r"\+inf"),
    "no finite value": (lambda x: jnp.where(x[0] > 0, jnp.nan, -jnp.inf), "no finite log-density"),
    "nan gradient": (lambda x: -jnp.sum(x**2) - jnp.sqrt(0.0 * x[0] ** 2), r"NaN or infinite gradients.*'x\[0\]'"),
    "constant": (lambda x: jnp.float32(1.5) + 0 * x[0], "depends on nothing"),
}


@pytest.mark.parametrize(("logdensity", "message"), BAD.values(), ids=BAD.keys())
def test_fit_refuses_what_cannot_be_sampled_and_says_why(logdensity, message):
    target = eg.Target(logdensity, like=jnp.zeros(2), name="mine")
    with pytest.raises(eg.TargetError, match=f"'mine'.*{message}"):
        eg.fit(target, KEY, eg.HEI(iterations=2))


def test_a_good_target_passes_every_check():
    found = statuses(lambda x: -0.5 * jnp.sum(x**2))
    assert {status for status, _ in found.values()} == {"passed"}
    assert set(found) == {"structure", "finite values", "finite gradients", "depends on the position"}


def test_a_coordinate_without_gradient_is_warned_about():
    status, message = statuses(lambda x: -0.5 * x[0] ** 2)["depends on the position"]
    assert status == "warning" and "'x[1]'" in message


def test_partly_invalid_starts_are_warned_about_and_can_be_fitted():
    def half_line(x):
        return jnp.sum(jnp.log(x) - x)

    status, message = statuses(half_line)["finite values"]
    assert status == "warning" and "NaN" in message
    target = eg.Target(half_line, like=jnp.ones(1))
    sampler = eg.fit(target, KEY, eg.HEI(iterations=3, initial_mean=0.0, initial_scale=1.0))
    assert sampler.record["nonfinite"].max() > 0
    assert all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(sampler.params))


def test_differences_that_are_lost_in_rounding_are_said():
    """A constant of 1e30 used to be an OverflowError in the middle of a fit."""
    status, message = statuses(lambda x: 1e30 - 0.5 * jnp.sum(x**2))["resolution"]
    assert status == "failed" and "steps of 7.6e+22" in message and "subtract a constant" in message
    assert "resolution" not in statuses(lambda x: 1e5 - 0.5 * jnp.sum(x**2))
    assert "resolution" not in statuses(lambda x: -1e6 * jnp.sum((x - 1e3) ** 2))
    with pytest.raises(eg.TargetError, match="lost in rounding"):
        eg.fit(eg.Target(lambda x: 1e30 - 0.5 * jnp.sum(x**2), like=jnp.zeros(2)), KEY)


def test_half_precision_is_refused():
    target = eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(2, jnp.float16))
    for fit in (eg.fit, lambda target, key: eg.fit_many([target, target], key)):
        with pytest.raises(eg.ConfigError, match="must be float32 or float64, not float16"):
            fit(target, KEY)


@pytest.mark.parametrize(
    ("logdensity", "said"),
    [
        (lambda x: -0.5 * x[0] ** 2, r"does not depend on 'x\[1\]', so that it has no finite integral"),
        (lambda x: jnp.where(x[0] > 0, jnp.sqrt(jnp.maximum(x[0], 0)), 0.0) - jnp.sum(x**2), r"NaN.*along 'x\[0\]'"),
        (lambda x: jnp.where(x[0] > 1, jnp.inf, -0.5 * jnp.sum(x**2)), r"log-density \+inf at \d+ of \d+ starts"),
        (lambda x: jnp.where(x[0] < 9, 0.0 * x[1], -jnp.inf), r"depends on nothing.*mapped to the reals"),
    ],
)
def test_what_has_no_draws_is_said_with_its_coordinate(logdensity, said):
    """By the default, whose ensembles have -inf in place of all that is not finite."""
    with pytest.raises(eg.TargetError, match=said):
        eg.fit(eg.Target(logdensity, like=jnp.zeros(2)), KEY, progress=False)


def test_particles_that_are_stuck_for_another_reason():
    x = np.random.default_rng(0).normal(size=(50, 2))
    outward = Particles(x, np.sum(x**2, axis=1), 2 * x)
    assert "rises outward along 'a', 'b'" in why_stuck(outward, ("a", "b"))
    upward = Particles(x, x[:, 0], np.ones((50, 1)) * np.array([1.0, 0.0]) - x * np.array([0.0, 1.0]))
    assert "rises without end along 'a', so" in why_stuck(upward, ("a", "b"))
    assert why_stuck(Particles(x, np.zeros(50), -x), ("a", "b")) == "is its gradient right?"
    assert "finite at none" in why_stuck(Particles(x, np.full(50, -np.inf), x), ("a", "b"))

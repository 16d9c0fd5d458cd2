import jax
import jax.numpy as jnp
import pytest

import ergodic as eg
from ergodic.tuning.checks import check_target

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

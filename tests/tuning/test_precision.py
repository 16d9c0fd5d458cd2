"""Rounding is measured against float64, said where it matters, and looked for without compiling."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from commands_ergodic import run
from ergodic.charts import DiagonalChart
from ergodic.tuning.precision import MATTERS, roughness, rounding


def stiff(x):
    """A Gaussian whose terms cancel: float32 keeps a quarter of one, along the second coordinate alone."""
    large = 3e6 * jnp.cos(1e-3 * x[0])
    return -0.5 * x[0] ** 2 - 0.5 * ((x[1] + large) - large) ** 2 - 0.5 * x[2] ** 2


def busy(x):
    """Everything a trace may have inside: loops, branches, calls, custom derivatives, gathers and matrices."""
    rows = jnp.asarray([[2.0, 0.3], [0.3, 1.0]], x.dtype)
    total, _ = jax.lax.scan(lambda s, v: (0.5 * s + jnp.tanh(v), s), jnp.zeros((), x.dtype), x)
    _, grown = jax.lax.fori_loop(0, 3, lambda i, s: (s[0] + 1, s[1] * 0.9), (0, x[0]))
    bent = jax.lax.cond(x[1] > 0, jnp.sin, jnp.cos, x[1])
    picked = jnp.sum(x[jnp.asarray([0, 2, 2])] ** 2)
    root = jnp.linalg.cholesky(rows + jnp.exp(-(x[0] ** 2)) * jnp.eye(2, dtype=x.dtype))
    soft = jax.nn.softplus(x).sum() + jax.nn.logsumexp(x) + jax.scipy.special.gammaln(2 + x[2] ** 2)
    return total + grown + bent - picked - jnp.sum(jnp.log(jnp.diagonal(root))) - jax.jit(jnp.sum)(soft)


def evaluated(target):
    """log π* and force of a target, as the walk has them."""
    from ergodic.kernels.ensemble import Ensemble

    return lambda x: Ensemble(jnp.asarray(x), *target.density.batched(jnp.asarray(x)))


def particles(target, x):
    from ergodic.tuning.forgetting import Particles

    there = evaluated(target)(x)
    return Particles(x, np.asarray(there.logdensity), np.asarray(there.gradient))


def some(dim, n=16):
    return np.random.default_rng(0).normal(size=(n, dim)).astype(np.float32)


def test_float64_is_what_the_function_gives_in_float64():
    """Of a function with everything in it: the promoted trace is the function traced in double precision."""
    from ergodic.tuning.precision import _widened

    x = some(3, 1)[0]
    trace = eg.Target(busy, like=jnp.zeros(3)).density.traced
    with jax.enable_x64(True):
        value, force = _widened(trace.jaxpr, jnp.asarray(x, jnp.float64))
        exact, slope = jax.value_and_grad(busy)(jnp.asarray(x, jnp.float64))
        assert value.dtype == force.dtype == np.float64
        # constants were rounded when they were written in float32, by up to 6e-8 of their size
        np.testing.assert_allclose(value, exact, rtol=3e-7)
        np.testing.assert_allclose(force, slope, rtol=3e-7, atol=3e-7)
    assert jnp.result_type(float) == np.float32  # nothing global has changed


def test_rounding_is_measured_in_nats_and_along_a_coordinate():
    target, x = eg.Target(stiff, like=jnp.zeros(3), names=("a", "b", "c")), some(3)
    found = rounding(target, x, np.ones(3))
    single = np.asarray(target.density.batched(jnp.asarray(x))[0], np.float64)
    wide = x.astype(np.float64)
    error = single + 0.5 * (wide**2).sum(axis=1)
    assert found.along == "b" and found.matters
    assert found.value == pytest.approx(np.abs(error - np.median(error)).max(), rel=1e-5)
    assert "along b" in str(found)
    fine = rounding(eg.Target(busy, like=jnp.zeros(3)), x, np.ones(3))
    assert not fine.matters and max(fine.value, fine.force) < 1e-5


def test_a_callback_cannot_be_compared():
    def outside(x):
        shape = jax.ShapeDtypeStruct((), x.dtype)

        @jax.custom_jvp
        def called(v):
            return jax.pure_callback(lambda u: np.float32(-0.5 * np.sum(u**2)), shape, v, vmap_method="sequential")

        called.defjvp(lambda primal, tangent: (called(*primal), -jnp.sum(primal[0] * tangent[0])))
        return called(x)

    assert rounding(eg.Target(outside, like=jnp.zeros(2)), some(2), np.ones(2)) is None


def test_a_small_step_tells_of_it_without_compiling():
    chart = DiagonalChart(np.ones(3, np.float32))
    for function, rough in ((stiff, True), (busy, False)):
        target = eg.Target(function, like=jnp.zeros(3))
        found = roughness(particles(target, some(3, 200)), chart, evaluated(target), np.random.default_rng(1))
        assert (found > MATTERS / 3) == rough


def test_a_fit_warns_and_says_what_to_do():
    target = eg.Target(stiff, like=jnp.zeros(3), name="stiff")
    with pytest.warns(eg.TargetWarning, match=r"not enough for 'stiff': rounding moves.*x\[1\].*jax_enable_x64"):
        eg.fit(target, jax.random.key(0), eg.GEI(particles=64, certify=False), progress=False, max_gradients=30_000)
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("error", eg.TargetWarning)
        wide = eg.Target(stiff, like=jnp.zeros(3))
        eg.fit(wide, jax.random.key(0), eg.GEI(particles=64, certify=False), progress=False, max_gradients=30_000)


def test_check_compares_float32_with_float64(capsys, tmp_path):
    path = tmp_path / "rough.py"
    path.write_text(
        "import jax.numpy as jnp\nimport ergodic as eg\n"
        "rough = eg.Target(lambda x: -0.5 * jnp.sum(((x + 3e6 * jnp.cos(x[0])) - 3e6 * jnp.cos(x[0])) ** 2), "
        "like=jnp.zeros(2))\n"
    )
    code, out, _ = run(capsys, "check", f"{path}:rough")
    assert code == 0 and "! single precision: is not enough: rounding moves" in out and "jax_enable_x64" in out
    code, out, _ = run(capsys, "check", "gaussian")
    assert code == 0 and "✓ single precision: is enough" in out

"""What an evaluation does is read off its trace, and many are evaluated a block at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.runtime.work import Traced, Work, divisor

ROWS = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float32)
LONG = jnp.linspace(0.0, 1.0, 8192, dtype=jnp.float32)


def wide(x):
    """A thousand observations' worth of intermediate values."""
    return jax.value_and_grad(lambda x: jnp.sum(jnp.exp(-((LONG - x[0]) ** 2)) * x[1]) - x[2] ** 2)(x)


def traced(function):
    return Traced.of(function, (3,), np.dtype(np.float32))


def test_blocks_have_the_values_of_all_rows_at_once():
    made = traced(wide)
    assert made.work.block(len(ROWS)) == 4
    for ours, theirs in zip(made.over(jnp.asarray(ROWS)), jax.vmap(wide)(ROWS), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("rows", "block"), [(24, 4), (7, 7), (2, 2)])
def test_a_block_divides_the_rows(rows, block):
    """Otherwise what is left over would be a second program."""
    assert traced(wide).work.block(rows) == block


def test_a_loop_is_not_repeated_block_after_block():
    def looping(x):
        return jax.lax.scan(lambda carry, t: (carry * 0.9 + t, carry), x, jnp.ones((8192, 3), jnp.float32))

    assert traced(looping).work.loops
    assert traced(looping).work.block(512) == 512


def test_what_is_small_or_too_large_is_evaluated_at_once():
    assert traced(lambda x: x @ x).work.block(512) == 512
    assert Work(largest=1 << 20).block(512) == 128  # which are 128 MB


def test_exponentials_are_counted_also_within_functions():
    inner = jax.jit(lambda x: jnp.exp(LONG * x[0]).sum())
    assert traced(lambda x: inner(x) + jnp.log1p(LONG * x[1] ** 2).sum()).work.special >= 2 * LONG.size
    assert not traced(inner).work.plain and traced(lambda x: x @ x).work.plain


def test_the_bytes_of_what_is_called_count_once():
    inner = jax.jit(lambda x: LONG * x[0])
    assert 4 * LONG.size <= traced(inner).work.bytes < 9 * LONG.size


def test_divisors():
    assert [divisor(12, most) for most in (0, 1, 5, 12, 99)] == [1, 1, 4, 12, 12]


def test_a_users_function_is_traced_once_for_tuning_drawing_and_certifying():
    calls = []

    def logdensity(x):
        calls.append(x)
        return -0.5 * x @ x

    target = eg.Target(logdensity, like=jnp.zeros(2))
    made = len(calls)
    eg.fit(target, jax.random.key(0), progress=False).sample(jax.random.key(1), 600, progress=False)
    assert len(calls) - made == 1

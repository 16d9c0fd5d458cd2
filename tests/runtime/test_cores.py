"""Rows are shared by the cores, and what comes out does not depend on how many there are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergodic.runtime import cores as module
from ergodic.runtime.cores import over_cores
from ergodic.runtime.programs import compiled


def walked(scale, common, start, key):
    """What stands for a chain on one row."""
    return {"end": start["x"] + scale * common * jax.random.normal(key, (3,)), "sum": jnp.sum(start["x"])}


@pytest.mark.parametrize("cores", [2, 3, 8])
def test_any_number_of_cores(monkeypatch, cores):
    start, keys = {"x": jnp.arange(15.0).reshape(5, 3)}, jax.random.split(jax.random.key(0), 5)
    expected = [walked(0.5, jnp.ones(3), {"x": start["x"][i]}, keys[i]) for i in range(5)]
    for count in (1, cores):
        monkeypatch.setattr(module, "_cores", lambda count=count: count)
        found = over_cores(walked, (0.5,), (jnp.ones(3),), start, keys)
        for name in found:
            np.testing.assert_allclose(found[name], np.stack([one[name] for one in expected]), rtol=1e-6)


def test_a_failure_in_one_part_is_raised(monkeypatch):
    monkeypatch.setattr(module, "_cores", lambda: 2)

    def refuse(x):
        raise ValueError(f"no {x.shape}")

    with pytest.raises(ValueError, match="no"):
        over_cores(refuse, (), (), jnp.ones((2, 1)))


def test_rows_ask_no_other_core_for_help(monkeypatch):
    """XLA's parallel products queue up while every core is taken by a row (`programs.compiled`)."""

    def products(x):
        return jax.lax.fori_loop(0, 10, lambda _, y: jnp.tanh(x @ y), x)

    programs = []

    def watched(*args, beside=False):
        assert beside
        programs.append(compiled(*args, beside=beside))
        return programs[-1]

    monkeypatch.setattr(module, "compiled", watched)
    over_cores(products, (), (), jnp.ones((2, 50, 50)))
    assert programs and not any("ynn" in program.as_text() for program in programs)

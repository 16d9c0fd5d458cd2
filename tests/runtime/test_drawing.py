"""Draws on several devices: bit for bit those of one, whoever makes which chunk."""

import threading
from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.adapters.streaming import stream
from ergodic.runtime.drawing import Batch, chosen, doing, in_use, spread, using, usual

KEY = jax.random.key(2)


def regression(w, data):
    return -0.5 * jnp.sum((data["y"] - data["x"] @ w) ** 2) - 0.5 * jnp.sum(w**2)


@pytest.fixture(scope="module")
def sampler():
    """Of the default, with data, which each device needs to have."""
    x = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
    target = eg.Target(regression, like=jnp.zeros(2), data={"x": x, "y": x.sum(axis=1)})
    return eg.GEI(particles=64, certify=False, chart=False).fit(target, jax.random.key(0))


def assert_same(one, other):
    np.testing.assert_array_equal(one.unconstrained, other.unconstrained)
    np.testing.assert_array_equal(one.logdensity, other.logdensity)
    jax.tree.map(np.testing.assert_array_equal, one.stats, other.stats)


def test_two_devices_make_the_draws_of_one(sampler, tmp_path, monkeypatch):
    """In memory and in a store; both devices take part."""
    who, make = set(), eg.GEI._run

    def watched(self, *args):
        who.add((threading.current_thread().name, jax.config.jax_default_device))
        return make(self, *args)

    monkeypatch.setattr(eg.GEI, "_run", watched)
    one = sampler.sample(KEY, 300, devices=1)
    assert {device for _, device in who} == {None}
    who.clear()
    two = sampler.sample(KEY, 300, devices=2)
    assert_same(one, two)
    assert {device for _, device in who} == set(jax.local_devices()[:2]) and len(who) == 2
    again = sampler.sample(jax.random.key(9), 300, devices=jax.local_devices()[1::-1])
    assert again.cost.compile_seconds == 0
    target = eg.targets.get("gaussian")
    plain = eg.HEI(steps=2, leapfrogs=1).untuned(target, KEY)
    assert_same(plain.sample(KEY, 300, chunk=64), plain.sample(KEY, 300, chunk=64, devices=2))
    for devices in (1, 2):
        stream(replace(sampler, source={}), KEY, 300, tmp_path / f"{devices}.zarr", devices=devices)
    files = [
        {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
        for folder in (tmp_path / "1.zarr", tmp_path / "2.zarr")
    ]
    assert files[0] == files[1]


def test_a_certificate_of_two_devices_is_that_of_one(sampler):
    found = [
        replace(sampler, gathered=None).certify(jax.random.key(4), draws=512, devices=devices) for devices in (1, 2)
    ]
    one, two = ([(each.name, each.verdict, each.statistic) for each in one.findings] for one in found)
    assert one == two


def batch(index):
    column = np.full(2, index, np.float32)
    return Batch(column[:, None], column, {}, {})


def test_batches_come_in_order_and_an_error_ends_them_all(monkeypatch):
    with using(2):
        assert [int(each.logdensity[0]) for each in spread(batch, range(3, 40))] == list(range(3, 40))
        assert doing("sampling") == "sampling on 2 devices"

        def failing(index):
            if index == 5:
                raise eg.ConfigError("no more")
            return batch(index)

        with pytest.raises(eg.ConfigError, match="no more"):
            list(spread(failing, range(20)))
    assert not [thread for thread in threading.enumerate() if "Device" in thread.name]


def test_devices_are_counted_or_named():
    """Of CPUs one is used where nothing is said, of accelerators all."""
    local = jax.local_devices()
    assert in_use() == (local[0],) and chosen(2) == tuple(local[:2]) and doing("sampling") == "sampling"
    with using(2), using(None):
        assert in_use() == tuple(local[:2])

    accelerators = [SimpleNamespace(platform="gpu")] * 8
    assert usual(accelerators) == tuple(accelerators) and usual(local) == (local[0],)
    for wrong in (3, 0, []):
        with pytest.raises(eg.ConfigError, match=r"devices"):
            chosen(wrong)

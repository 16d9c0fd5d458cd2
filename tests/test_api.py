import json
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save as to_bytes

import ergodic as eg
from ergodic.runtime import files, sampler_files


@pytest.fixture
def saved(gaussian_sampler, tmp_path):
    path = tmp_path / "g.ergodic"
    gaussian_sampler.save(path)
    return path


def test_a_sampler_comes_back_whole(gaussian_sampler, saved):
    back = eg.load(saved, gaussian_sampler.target)
    assert back.method == gaussian_sampler.method
    assert back.cost == gaussian_sampler.cost
    for one, other in zip(jax.tree.leaves(back.params), jax.tree.leaves(gaussian_sampler.params), strict=True):
        np.testing.assert_array_equal(one, other)
    assert set(back.record) == set(gaussian_sampler.record)
    for name in back.record:
        np.testing.assert_array_equal(back.record[name], gaussian_sampler.record[name])
    key = jax.random.key(3)
    np.testing.assert_array_equal(back.sample(key, 50).position, gaussian_sampler.sample(key, 50).position)


def test_settings_of_every_kind_survive(tmp_path):
    target = eg.targets.get("gaussian")
    method = eg.HEI(
        iterations=1,
        steps=2,
        initial_mean=[0.5, -0.5],
        initial_scale=np.array([2.0, 3.0]),
        entropy_floor=1.5,
        adjusted=False,
    )
    method.fit(target, jax.random.key(0)).save(tmp_path / "s")
    assert eg.load(tmp_path / "s", target).method == method


def test_a_failed_write_leaves_the_old_file(gaussian_sampler, saved, monkeypatch):
    before = saved.read_bytes()

    def fails(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="disk full"):
        gaussian_sampler.save(saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_every_truncation_is_noticed(saved, gaussian_sampler):
    data = saved.read_bytes()
    for length in (0, 4, 8, 100, len(data) // 2, len(data) - 1):
        saved.write_bytes(data[:length])
        with pytest.raises(eg.StorageError, match=r"damaged|truncated"):
            eg.load(saved, gaussian_sampler.target)


def test_a_flipped_byte_in_the_arrays_is_noticed(saved, gaussian_sampler):
    data = bytearray(saved.read_bytes())
    data[-5] ^= 0x40
    saved.write_bytes(bytes(data))
    with pytest.raises(eg.StorageError, match="checksum"):
        eg.load(saved, gaussian_sampler.target)


def _rewrite(path, change):
    header, arrays = sampler_files.read(path)
    change(header, arrays)
    path.write_bytes(to_bytes(arrays, metadata={"ergodic": json.dumps(header)}))


def test_foreign_files_are_named_as_such(tmp_path, gaussian_sampler):
    target = gaussian_sampler.target
    path = tmp_path / "f"
    with pytest.raises(eg.StorageError, match="no such file"):
        eg.load(path, target)
    path.write_text("hello, this is not a sampler at all")
    with pytest.raises(eg.StorageError, match="not a sampler's file"):
        eg.load(path, target)
    path.write_bytes(to_bytes({"w": np.zeros(3)}))
    with pytest.raises(eg.StorageError, match="not one that ergodic wrote"):
        eg.load(path, target)
    path.write_bytes(to_bytes({"w": np.zeros(3)}, metadata={"ergodic": "{broken"}))
    with pytest.raises(eg.StorageError, match="header cannot be read"):
        eg.load(path, target)
    path.write_bytes(to_bytes({"w": np.zeros(3)}, metadata={"ergodic": json.dumps({"schema": 1})}))
    with pytest.raises(eg.StorageError, match="header has no"):
        eg.load(path, target)


def test_a_newer_schema_asks_for_an_upgrade(saved, gaussian_sampler):
    _rewrite(saved, lambda header, _: header.update(schema=99, version="9.0"))
    with pytest.raises(eg.StorageError, match=r"schema 99.*9\.0.*upgrade"):
        eg.load(saved, gaussian_sampler.target)


def test_unknown_methods_and_settings_are_named(saved, gaussian_sampler):
    _rewrite(saved, lambda header, _: header.update(method="MAGIC"))
    with pytest.raises(eg.StorageError, match="MAGIC"):
        eg.load(saved, gaussian_sampler.target)
    _rewrite(saved, lambda header, _: header.update(method="HEI", config={"wings": 2}))
    with pytest.raises(eg.StorageError, match="wings"):
        eg.load(saved, gaussian_sampler.target)


def test_a_missing_or_misshapen_array_is_named(saved, gaussian_sampler):
    def drop(header, arrays):
        del arrays["params/initial/mean"]
        header["sha256"] = files.digest(arrays)

    original = saved.read_bytes()
    _rewrite(saved, drop)
    with pytest.raises(eg.StorageError, match="no array 'params/initial/mean'"):
        eg.load(saved, gaussian_sampler.target)

    def reshape(header, arrays):
        arrays["params/transitions/log_step"] = np.zeros((3, 2), np.float32)
        header["sha256"] = files.digest(arrays)

    saved.write_bytes(original)
    _rewrite(saved, reshape)
    with pytest.raises(eg.StorageError, match=r"log_step' is float32\[3, 2\]"):
        eg.load(saved, gaussian_sampler.target)


def test_a_target_of_another_shape_is_refused(saved):
    def normal(x):
        return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(x))

    with pytest.raises(eg.StorageError, match="leaves"):
        eg.load(saved, eg.Target(normal, like=jnp.zeros(3)))
    with pytest.raises(eg.StorageError, match="leaves"):
        eg.load(saved, eg.Target(normal, like={"a": 0.0, "b": 0.0}))
    with pytest.raises(eg.StorageError, match="dtype"):
        eg.load(saved, eg.Target(normal, like=jnp.zeros(2, jnp.bfloat16)))


def numpyro_model(y=None):
    import numpyro

    numpyro.sample("x", numpyro.distributions.Normal(0.0, 1.0))


def test_models_are_pointed_to_their_adapters():
    with pytest.raises(eg.ConfigError, match=r"eg.from_numpyro\(model, \*its arguments\)"):
        eg.fit(numpyro_model, jax.random.key(0))
    with pytest.raises(eg.ConfigError, match=r"eg.Target\(f, like=...\)"):
        eg.fit(lambda x: -jnp.sum(x**2), jax.random.key(0))


def test_fitting_and_drawing_under_a_transformation_is_refused_with_words(gaussian_sampler):
    key = jax.random.key(0)
    for transformed in (
        jax.jit(lambda x: gaussian_sampler.sample(key, 3).unconstrained * x),
        jax.vmap(lambda x: eg.fit(gaussian_sampler.target, key).cost.gradients * x),
        jax.grad(lambda x: gaussian_sampler.certify(key).draws * x),
    ):
        with pytest.raises(eg.ConfigError, match=r"cannot be inside of jax.jit.*eg.fit_many"):
            transformed(jnp.ones(2))


def test_help_says_what_goes_in_and_what_comes_back():
    for verb, words in ((eg.fit, ("Args:", "Returns:", "Example:")), (eg.fit_many, ("Args:", "Returns:"))):
        assert all(word in verb.__doc__ for word in words)

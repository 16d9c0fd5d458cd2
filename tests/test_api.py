import json
import os
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save as to_bytes

import ergodic as eg
from ergodic.certificate import Bound, Certificate, Finding
from ergodic.runtime import sampler_files
from ergodic.runtime.programs import Cost


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
    with pytest.raises(eg.StorageError, match=r"g\.ergodic cannot be written: disk full"):
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
    sampler_files.write(path, header, arrays)


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
    with pytest.raises(eg.StorageError, match="header is damaged: it is not JSON"):
        eg.load(path, target)
    path.write_bytes(to_bytes({"w": np.zeros(3)}, metadata={"ergodic": "[" * 100_000}))
    with pytest.raises(eg.StorageError, match="header is damaged: it is not JSON"):
        eg.load(path, target)
    path.write_bytes(to_bytes({"w": np.zeros(3)}, metadata={"ergodic": json.dumps({"schema": 1})}))
    with pytest.raises(eg.StorageError, match="header has no config"):
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

    original = saved.read_bytes()
    _rewrite(saved, drop)
    with pytest.raises(eg.StorageError, match="no array 'params/initial/mean'"):
        eg.load(saved, gaussian_sampler.target)

    def reshape(header, arrays):
        arrays["params/transitions/log_step"] = np.zeros((3, 2), np.float32)

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


@pytest.fixture
def certified(gaussian_sampler, saved):
    """A file with a certificate that says passed."""
    findings = (Finding("health", "finite values", "passed", "all finite", 0.0),)
    kept = Certificate(findings, 2_000, 0.02, Cost(5, 1), 5, Bound(0.01, 0.95, 256, (0.01, 0.001), (0.0, 0.0), 7))
    draws = gaussian_sampler.sample(jax.random.key(1), 100)
    replace(gaussian_sampler, certificate=kept, draws=draws).save(saved)
    assert eg.load(saved, gaussian_sampler.target).certificate == kept
    return saved


def test_no_flipped_bit_of_a_file_is_read(certified):
    """Of the header, of what safetensors says of the arrays, and of their bytes."""
    data = certified.read_bytes()
    for bit in np.random.default_rng(0).choice(8 * len(data), 300, replace=False).tolist() + list(range(64, 464)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        certified.write_bytes(flipped)
        with pytest.raises(eg.StorageError):
            sampler_files.read(certified)


@pytest.mark.parametrize(
    "change",
    [
        {"certificate": {"findings": []}},
        {"certificate": {"findings": [{"group": "a", "name": "b", "verdict": "splendid", "words": "c"}]}},
        {"certificate": {"findings": [{"group": "a"}]}},
        {"certificate": {"findings": 3}},
        {"certificate": {"findings": [{"group": "a", "name": "b", "verdict": "passed", "words": "c"}], "draws": "9"}},
        {"certificate": []},
        {"cost": {"gradients": "many"}},
        {"cost": {"wings": 2}},
        {"target": {"dim": 10**9}},
        {"target": {}},
        {"members": 10**12},
        {"method": 3},
        {"config": []},
        {"config": {"steps": "[" * 100}},
        {"source": None},
        {"schema": True},
    ],
)
def test_a_crafted_header_is_refused(certified, gaussian_sampler, change):
    """Its checksum is right, what it says is not."""
    header, arrays = sampler_files.read(certified)
    sampler_files.write(certified, header | change, arrays)
    with pytest.raises(eg.StorageError):
        eg.load(certified, gaussian_sampler.target)


def test_a_certificate_without_findings_says_nothing():
    assert Certificate((), 0, 0.02, Cost(), 0).passed is None


@pytest.mark.parametrize(
    "other",
    [
        eg.targets.get("banana").density,
        lambda x: eg.targets.get("gaussian").density(x + 0.05),
        lambda x: eg.targets.get("gaussian").density(x) + jnp.where(x[0] > 0, 0.1, 0.0),
        lambda x: jnp.full((), jnp.nan),
    ],
)
def test_a_certificate_of_another_density_is_not_read(certified, other):
    """Of the same shape and name: what it was made for is in the file, at a few of its draws."""
    with pytest.warns(eg.DrawsWarning, match=r"no certificate for 'gaussian': it was made for another log-density"):
        sampler = eg.load(certified, eg.Target(other, like=jnp.zeros(2), name="gaussian", names=("x1", "x2")))
    assert sampler.certificate is None and sampler.draws is None


def test_rounding_and_a_new_target_of_the_same_density_keep_the_certificate(certified):
    same = eg.targets.get("gaussian").density
    target = eg.Target(lambda x: (1 + 2e-6) * same(x), like=jnp.zeros(2), name="mine")
    assert eg.load(certified, target).certificate.passed
    header, arrays = sampler_files.read(certified)
    sampler_files.write(certified, header, {k: v for k, v in arrays.items() if not k.startswith("about/")})
    with pytest.warns(eg.DrawsWarning, match="no certificate"):
        assert eg.load(certified, target).certificate is None


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


@pytest.mark.parametrize("name", ["about/position", "about/logdensity", "draws/logdensity", "draws/position"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 2, 2)])
@pytest.mark.filterwarnings("ignore:.*no certificate")
def test_arrays_of_another_shape_leave_no_certificate(certified, gaussian_sampler, name, shape):
    header, arrays = sampler_files.read(certified)
    sampler_files.write(certified, header, {**arrays, name: np.zeros(shape, np.float32)})
    if name.startswith("about/"):
        assert eg.load(certified, gaussian_sampler.target).certificate is None
    else:
        with pytest.raises(eg.StorageError, match="certified draws"):
            eg.load(certified, gaussian_sampler.target)

"""A sampler's file: what an earlier schema called its arrays is still read."""

import json

import jax
import numpy as np
from safetensors.numpy import save as to_bytes

import ergodic as eg
from ergodic.runtime import files, sampler_files


def test_a_file_of_schema_1_is_read(tmp_path):
    """There charts were called metrics; everything else stayed as it is, but for settings that were not there."""
    target = eg.targets.get("gaussian")
    sampler = eg.fit(target, jax.random.key(0), eg.GEI(certify=False), progress=False)
    sampler.save(tmp_path / "new.ergodic")
    metadata, arrays = files.read_arrays(tmp_path / "new.ergodic", "a file")
    old = {name.replace("/charts/", "/metrics/").replace("/chart/", "/metric/"): arrays[name] for name in arrays}
    assert set(old) != set(arrays)
    header = json.loads(metadata["ergodic"]) | {"schema": 1, "sha256": files.digest(old)}
    del header["config"]["details"]
    (tmp_path / "old.ergodic").write_bytes(to_bytes(old, metadata={"ergodic": json.dumps(header)}))
    assert sampler_files.SCHEMA == 3
    again = eg.load(tmp_path / "old.ergodic", target)
    assert again.method == sampler.method
    one, other = (each.sample(jax.random.key(1), 10).unconstrained for each in (sampler, again))
    np.testing.assert_array_equal(one, other)


def test_further_arrays_go_with_a_sampler(tmp_path):
    target = eg.targets.get("gaussian")
    sampler = eg.HEI(steps=2).untuned(target, jax.random.key(0))
    sampler.extra = {"rows": np.arange(6.0).reshape(2, 3)}
    sampler.save(tmp_path / "with.ergodic")
    again = eg.load(tmp_path / "with.ergodic", target)
    np.testing.assert_array_equal(again.extra["rows"], sampler.extra["rows"])

"""Strict settings for every test, made before JAX is first used."""

import os

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# Shapes and types are checked wherever arrays flow. Not at the doors, where users' mistakes get our own errors.
CHECKED = ("chain", "initial", "kernels", "tuning", "targets", "diagnostics", "experiments", "report", "draws")
install_import_hook([f"ergodic.{room}" for room in CHECKED], "beartype.beartype")

import ergodic as eg


@pytest.fixture
def x64():
    """Double precision for one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="session")
def gaussian_sampler():
    """A tuned chain on the correlated Gaussian, shared by tests that only read it."""
    return eg.fit(eg.targets.get("gaussian"), jax.random.key(0), eg.HEI(), progress=False)

"""Strict settings, and what tests share."""

from strict_ergodic import pytest_collection_modifyitems, pytest_xdist_make_scheduler, x64  # noqa: F401, I001 (first)

import jax
import pytest

import ergodic as eg


@pytest.fixture(scope="session")
def gaussian_sampler():
    """A tuned chain on the correlated Gaussian, shared by tests that only read it."""
    return eg.fit(eg.targets.get("gaussian"), jax.random.key(0), eg.HEI(), progress=False)

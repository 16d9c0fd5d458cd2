"""Strict settings, and what tests share."""

from strict_ergodic import pytest_collection_modifyitems, pytest_xdist_make_scheduler, x64  # noqa: F401, I001 (first)

import signal

import jax
import pytest

import ergodic as eg


@pytest.fixture(scope="session")
def gaussian_sampler():
    """A tuned chain on the correlated Gaussian, shared by tests that only read it."""
    return eg.fit(eg.targets.get("gaussian"), jax.random.key(0), eg.HEI(), progress=False)


@pytest.fixture
def ctrl_c():
    """Ctrl-C as an interpreter has it: workers of a test run may have it otherwise."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)

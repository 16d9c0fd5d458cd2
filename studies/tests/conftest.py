"""The library's strict settings, for the studies' tests."""

from strict_ergodic import pytest_collection_modifyitems, pytest_xdist_make_scheduler, x64  # noqa: F401

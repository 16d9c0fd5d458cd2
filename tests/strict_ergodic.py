"""Strict settings for every test, of the library and of the studies, made before JAX is first used."""

import dataclasses
import importlib
import inspect
import os

# Most of a cold run is compiling small programs. XLA's older emitters, one module a program and no LLVM optimisation
# take a fraction of the time; the programs that run long are few. The environment's own flags come last and win:
# XLA_FLAGS="--xla_cpu_use_fusion_emitters=true --xla_backend_optimization_level=3" tests what users run.
FLAGS = (
    "--xla_force_host_platform_device_count=2",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
    "--xla_backend_optimization_level=0",
)
os.environ["XLA_FLAGS"] = " ".join((*FLAGS, os.environ.get("XLA_FLAGS", "")))
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import pytest
from jaxtyping import install_import_hook

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# Shapes and types are checked wherever arrays flow. Not at the doors, where users' mistakes get our own errors.
CHECKED = (
    "runtime",
    "statistics",
    "charts",
    "chain",
    "initial",
    "kernels",
    "tuning",
    "targets",
    "diagnostics",
    "draws",
    "certificate",
    "calibration",
    "model",
    "methods",
    "bnn",
    "datasets",
    "adapters",
    "generative",
    "cli",
)
STUDIES = ("harness", "paper", "bench", "report")
install_import_hook(
    [*(f"ergodic.{room}" for room in CHECKED), *(f"ergodic_studies.{room}" for room in STUDIES)], "beartype.beartype"
)


def _open(cls):
    """Settings are a door: what a user hands to a method's constructor gets our own errors, not a type checker's."""
    for part in cls.__mro__:
        if dataclasses.is_dataclass(part) and "__init__" in vars(part):
            part.__init__ = inspect.unwrap(part.__init__)


for method in importlib.import_module("ergodic.methods").METHODS.values():
    _open(method)
library = importlib.import_module("ergodic")
for name, verb in vars(library).items():
    if inspect.isfunction(verb):
        setattr(library, name, inspect.unwrap(verb))  # a door too: the verbs of the top level


@pytest.fixture
def x64():
    """Double precision for one test."""
    with jax.enable_x64(True):
        yield


# What takes longest goes first, so that workers end at about the same time.
LONGEST = (
    "test_gei",
    "test_synthetic",
    "test_protocol",
    "test_l2hmc",
    "test_training",
    "test_generative",
    "test_peers",
)


def pytest_collection_modifyitems(items):
    """The longest files first; the rest in their order."""
    rank = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(LONGEST)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """A file goes to one worker as a whole: what its tests share is fitted and compiled once."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    return LoadFileScheduling(config, log)

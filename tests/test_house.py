"""The layers and the size of the house, which `make house` prints; no figure may get worse."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import house


@pytest.fixture(scope="module")
def facts():
    return house.facts()


@pytest.mark.parametrize(
    "name",
    ["upward imports", "cycles", "probes", "files over 400 lines", "docstrings of three words or fewer"],
)
def test_there_is_none(facts, name):
    assert facts[name] == []


def test_the_wheel_is_small(facts):
    assert facts["lines of the wheel"] <= house.LINES
    assert facts["core dependencies"] <= house.DEPENDENCIES


def test_the_script_sees_what_it_looks_for(tmp_path):
    """A package with an upward import inside of a function, a circle, and a probe of a method."""
    (tmp_path / "low.py").write_text("def f(method):\n    from . import high\n    return hasattr(method, 'go_on')\n")
    (tmp_path / "high.py").write_text("from typing import TYPE_CHECKING\nfrom . import low\n")
    (tmp_path / "typed.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import high\n")
    found = house.look(tmp_path, "toy", (("low", "typed"), ("high",)))
    assert found.upward == ["toy.low -> toy.high"]
    assert found.cycles == [["toy.high", "toy.low"]]
    assert house.probes(found) == ["toy.low:3"]

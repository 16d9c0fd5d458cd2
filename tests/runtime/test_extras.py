"""Optional packages: one line says what is missing and how to install it."""

import re
import tomllib
from pathlib import Path

import pytest

from ergodic.runtime.errors import ErgodicError, MissingExtra
from ergodic.runtime.extras import EXTRA_OF, OF_STUDIES, explained, installed, require

ROOT = Path(__file__).resolve().parents[2]


def packages(requirements):
    """The names of required packages, as they are imported."""
    names = {re.split(r"[^\w-]", requirement)[0] for requirement in requirements}
    return {{"scikit-learn": "sklearn"}.get(name, name) for name in names}


def test_a_missing_package_is_named_with_what_installs_it():
    assert require("json", "results").dumps({}) == "{}"
    with pytest.raises(MissingExtra) as caught:
        require("no_such_package.part", "results", "to_arviz()")
    message = "to_arviz() needs no_such_package, which is not installed: pip install 'ergodic-inference[results]'"
    assert str(caught.value) == message
    assert isinstance(caught.value, ErgodicError) and isinstance(caught.value, ImportError)


def test_what_is_installed_is_found_without_importing_it():
    assert installed("json") and not installed("no_such_package") and not installed("no_such_package.part")


def test_an_import_that_failed_is_explained_where_the_package_is_optional():
    assert "ergodic-inference[networks]" in str(explained(ModuleNotFoundError(name="equinox.nn")))
    assert "run `make` in a checkout" in str(explained(ModuleNotFoundError(name="jinja2")))
    assert explained(ModuleNotFoundError(name="no_such_package")) is None
    assert explained(ModuleNotFoundError("without a name")) is None


def test_the_extras_are_those_of_the_package():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for package, extra in EXTRA_OF.items():
        assert package in packages(extras[extra])
    listed = {name: packages(extras[name]) for name in set(EXTRA_OF.values())}
    assert set.union(*listed.values()) == set(EXTRA_OF)
    studies = tomllib.loads((ROOT / "studies" / "pyproject.toml").read_text())["project"]["dependencies"]
    assert set(OF_STUDIES) <= packages(studies)

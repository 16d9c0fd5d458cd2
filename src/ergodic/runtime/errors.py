"""The errors a user can cause. Each message names the cause and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ErgodicError(ValueError):
    """Base class: the command line prints these as one line and exits with a non-zero code."""


class TargetError(ErgodicError):
    """The log-density, or the ``like`` it was declared with, cannot be sampled from."""


class ConfigError(ErgodicError):
    """A method, or a call to ``sample``, was given a setting that makes no sense."""


class StorageError(ErgodicError):
    """A file could not be read as what it should be."""


class DataError(ErgodicError):
    """A data set that something needs is not at hand."""


class ModelError(ErgodicError):
    """A name or ``file.py:object`` on the command line does not lead to a model."""


class MissingExtra(ErgodicError, ImportError):
    """An optional package is not installed; the message names the command that installs it.

    Args:
        package: The package that is missing.
        extra: The extra of ``ergodic-inference`` that brings it.
        what: What needs the package.
    """

    def __init__(self, package: str, extra: str, what: str = "this"):
        super().__init__(f"{what} needs {package}, which is not installed: pip install 'ergodic-inference[{extra}]'")
        self.package, self.extra = package, extra


class DrawsWarning(UserWarning):
    """Something about the draws that their user should know before trusting them."""


class TargetWarning(UserWarning):
    """Something about a target that its user may not have meant."""


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The message for a name that is not there, with the nearest one that is."""
    names = list(known)
    near = difflib.get_close_matches(name.lower(), [n.lower() for n in names], 1)
    hint = next((f"; did you mean '{n}'?" for n in names if near and n.lower() == near[0]), "")
    listed = "; ".join(names) if any("," in n for n in names) else ", ".join(names)
    return f"no {kind} '{name}'{hint} (there are: {listed})"

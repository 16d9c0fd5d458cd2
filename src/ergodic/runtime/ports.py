"""Ports: how a noun offers a verb that lives above it, without importing upwards.

`Sampler.certify` needs every diagnostic, `Draws.to_arviz` needs ArviZ's adapter; both stand in higher rooms. The noun's
file declares a port, typed as the function it needs; the higher file provides that function when it is imported, which
`import ergodic` makes sure of:

    summarising: Port[...] = Port("Draws.summary")             # draws.py

    @summarising.provide                                        # diagnostics/summary.py
    def summarise_draws(draws, rows): ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Verb = TypeVar("Verb", bound=Callable)


class Port(Generic[Verb]):
    """A place for one function, filled once by a higher room."""

    def __init__(self, name: str):
        self.name = name
        self._verb: Verb | None = None

    def provide(self, verb: Verb) -> Verb:
        """Fill the port; works as a decorator, and returns the function unchanged."""
        self._verb = verb
        return verb

    @property
    def verb(self) -> Verb:
        """The function that was provided."""
        if self._verb is None:
            raise RuntimeError(f"nothing provides {self.name}: import ergodic before its parts")
        return self._verb

"""How much of a study is run: ``smoke`` tries it out, ``cpu`` is for one machine, ``paper`` is as much as the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass, replace
from typing import Generic, TypeVar

from ergodic.runtime.validation import one_of

Size = TypeVar("Size")
"""A study's own frozen dataclass of numbers: how many seeds, how many draws."""


@dataclass(frozen=True)
class Preset(Generic[Size]):
    """One of a study's sizes, and the name under which it is asked for."""

    name: str
    size: Size

    def config(self) -> dict[str, object]:
        """What goes into the record of a run: the name, and the size's numbers by name."""
        numbers = asdict(self.size) if is_dataclass(self.size) and not isinstance(self.size, type) else {}
        return {"preset": self.name, **numbers}


def choose(sizes: Mapping[str, Size], name: str) -> Preset[Size]:
    """The preset of that name; an unknown name is an error that lists those there are."""
    return Preset(name, sizes[one_of(name, tuple(sizes), "preset")])


def changed(size: Size, **numbers: object) -> Size:
    """The size with some numbers replaced; a number that is None stays as it is."""
    given = {name: number for name, number in numbers.items() if number is not None}
    return replace(size, **given)  # type: ignore[type-var]

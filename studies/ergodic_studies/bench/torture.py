"""`ergodic bench torture`: kills, damaged and crafted files, bad densities, command lines, writers, a full disk.

Every trial follows from the seed and its number, and is kept as a cell, so that a run that was stopped goes on. What is
promised is in the columns: nothing changed silently, no raw error, nothing that hangs or grows before it is refused,
nothing left over, no bad density certified. A number that is not 0 there has the cell's name beside it in results.json.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer

from ..harness.cells import Cell
from ..harness.processes import call
from ..harness.study import Report, Run, Study
from ..harness.tables import Table
from . import torture_kills
from .torture_kills import COMMANDS, Outcome

_AT_ONCE = 5
"""Rounds of files, or four times as many command lines, of one process."""
_WRONG = ("changed", "raw", "hung", "grew", "left over", "certified wrongly")
_COLUMNS = ("trials", "refused", *_WRONG)
_HERE = "ergodic_studies.bench"


@dataclass(frozen=True)
class Size:
    """How much is run: kills of every command, rounds of files, seeds of every so-many-th density, lines, writers."""

    kills: int
    rounds: int
    seeds: int
    every: int
    lines: int
    writers: int
    commands: tuple[str, ...] = tuple(COMMANDS)
    methods: tuple[str, ...] = ("GEI", "HEI")


PRESETS = {
    "smoke": Size(1, 5, 1, 25, 20, 1, ("sample to zarr", "sample to npz"), ("GEI",)),
    "cpu": Size(4, 20, 1, 4, 100, 2),
    "full": Size(34, 90, 3, 1, 200, 5),
}


def _cells(run: Run[Size], seed: int) -> Mapping[str, list[Cell[Outcome]]]:
    """All trials, by what they are."""
    size = run.size

    def cell(part: str, index: object, work: Callable[[], Outcome]) -> Cell[Outcome]:
        return Cell((part, str(index)), [part, str(index), seed], lambda path: work())

    def called(function: str, *arguments: object) -> Callable[[], Outcome]:
        def work() -> Outcome:
            found = call(f"{_HERE}.{function}", arguments)
            assert isinstance(found, dict)
            parts = [part for part in found.values() if isinstance(part, dict)]
            return _sum(parts) if parts else found

        return work

    def kills(how: str, count: int) -> list[Cell[Outcome]]:
        pairs = [(command, seed + index) for command in size.commands for index in range(count)]
        return [cell(f"{how} {command}", at, partial(torture_kills.trial, command, at, how)) for command, at in pairs]

    from .torture_densities import densities, trial

    some = list(densities().items())[:: size.every]
    seeds = range(seed, seed + size.seeds)
    fits = {
        label: [
            cell(f"density {name} {method}", at, partial(trial, name, method, at))
            for (name, made), method, at in itertools.product(some, size.methods, seeds)
            if made.label == label
        ]
        for label in ("proper", "walled", "improper", "broken")
    }
    rounds = range(0, size.rounds, _AT_ONCE)
    lines = range(0, size.lines, 4 * _AT_ONCE)
    return {
        "SIGKILL, and again": kills("SIGKILL", size.kills),
        "Ctrl-C, and again": kills("SIGINT", max(1, size.kills // 4)),
        "files": [cell("files", seed + at, called("torture_files:trials", seed + at, _AT_ONCE)) for at in rounds],
        **{f"densities, {label}": made for label, made in fits.items()},
        "command lines": [
            cell("lines", seed + at, called("torture_lines:lines", seed + at, 4 * _AT_ONCE)) for at in lines
        ],
        "writers": [
            cell(f"writers {ending} {count}", at, called("torture_lines:writers", ending, count))
            for ending in (".nc", ".npz", ".zarr")
            for count in (2, 3)
            for at in range(size.writers)
        ],
        "a full disk": [cell("disk", 0, called("torture_lines:full_disk"))],
    }


def _sum(parts: list[Outcome]) -> Outcome:
    return {
        name: sum(part.get(name, 0) for part in parts) for name in sorted({name for part in parts for name in part})
    }


def torture(
    run: Run[Size],
    *,
    seed: Annotated[int, typer.Option(help="Of all trials.")] = 0,
    part: Annotated[str | None, typer.Option(help="Only trials whose name begins so; nothing is written.")] = None,
) -> Report:
    """Kills, damaged and crafted files, bad densities, command lines, several writers, a full disk: what is lost."""
    results: dict[str, Outcome] = {}
    wrong: dict[str, Outcome] = {}
    for name, cells in _cells(run, seed).items():
        if part is not None and not name.startswith(part):
            continue
        outcomes = []
        for at, one in enumerate(cells):
            run.status(f"{name}: {at} of {len(cells)}")
            outcomes.append(one.result(run.cells))
            if any(outcomes[-1].get(column) for column in _WRONG):
                wrong[one.name] = outcomes[-1]
        results[name] = _sum(outcomes)
        run.say(f"{name}: " + ", ".join(f"{value} {what}" for what, value in results[name].items() if value))
    rows = [
        [name, *(str(found.get(column, 0)) if column in found else "" for column in _COLUMNS)]
        for name, found in results.items()
    ]
    table = Table.of("Torture: how many trials, how many refused, and how many broke a promise", ["", *_COLUMNS], rows)
    return Report({"seed": seed, "parts": results, "wrong": wrong}, [table], whole=part is None)


STUDY = Study("torture", "bench", PRESETS, torture)

"""A study, and the one runner that `ergodic reproduce NAME` and `ergodic bench NAME` both use.

A study's file has its sizes, the function that does the work, and one line that puts them together:

    STUDY = Study("skew", "bench", PRESETS, skew)

The function is given a `Run` and returns a `Report`; its keyword arguments that are annotated as command-line options
(``Annotated[int | None, typer.Option(help=...)]``) become options of the command. The runner looks up the preset,
refuses a folder that cannot be written before any work is done, and writes ``results.json``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar, get_origin

from ergodic.runtime.files import require_writable

from .cells import Cell
from .crew import Crew
from .presets import Preset, choose
from .results import write_results
from .tables import Figure, Table

Size = TypeVar("Size")
Say = Callable[[str], None]


def _silent(text: str) -> None:
    """Leave the line of progress out."""


@dataclass(frozen=True)
class Run(Generic[Size]):
    """What a study is given.

    Attributes:
      preset: how much is run.
      out: the folder of the run's files, which exists.
      say: prints a line of progress.
      status: replaces the line that says what is going on at the moment.
      crew: who makes cells, where it is not this process alone.
    """

    preset: Preset[Size]
    out: Path
    say: Say = print
    status: Say = _silent
    crew: Crew | None = None

    def share(self, cells: Sequence[Cell[Any]]) -> None:
        """Have cells made by the workers, where there are any; the study then reads them, or makes them itself."""
        if self.crew is not None:
            self.crew.make(cells, self.cells, self.status)

    @property
    def size(self) -> Size:
        """How much is run: the preset's numbers."""
        return self.preset.size

    @property
    def cells(self) -> Path:
        """The folder of the run's cells."""
        return self.out / "cells"


@dataclass(frozen=True)
class Report:
    """What a study found.

    Attributes:
      results: all that was measured, as JSON.
      tables: what is printed and shown on the page.
      figures: pictures that the study wrote into the run's folder; None where the page is to show every picture there.
      config: the settings to record; None for the preset's.
      whole: whether this is the whole study. A part of it, run to share the work, is printed and not written.
      documents: whether the tables are also written as ``tables.md``.
    """

    results: object
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] | None = None
    config: Mapping[str, object] | None = None
    whole: bool = True
    documents: bool = False


@dataclass(frozen=True)
class Study(Generic[Size]):
    """A study.

    Attributes:
      name: its name on the command line.
      kind: ``"reproduce"`` for a part of the paper, ``"bench"`` for a measurement of this library; the command it
        belongs to.
      presets: its sizes by name.
      work: does the work; its docstring is the command's help.
      title: its name in ``results.json`` and on the page; the study's name when left out.
      shared: whether several workers may make its cells: it hands them to `Run.share`, and times nothing.
    """

    name: str
    kind: Literal["reproduce", "bench"]
    presets: Mapping[str, Size]
    work: Callable[..., Report]
    title: str = ""
    shared: bool = False

    def options(self) -> list[inspect.Parameter]:
        """The parameters of ``work`` that are options of the command."""
        parameters = inspect.signature(self.work, eval_str=True).parameters.values()
        return [p for p in parameters if p.kind is p.KEYWORD_ONLY and get_origin(p.annotation) is Annotated]

    def command(self, preset: str, options: Mapping[str, object]) -> str:
        """The command that repeats a run, with those options that were given."""
        words = [f"ergodic {self.kind} {self.name} --preset {preset}"]
        for option in self.options():
            value = options.get(option.name, option.default)
            if value == option.default or value is False:
                continue
            flag = "--" + option.name.replace("_", "-")
            values = value if isinstance(value, (list, tuple)) else [value]
            words += [flag] if value is True else [f"{flag} {_quoted(str(one))}" for one in values]
        return " ".join(words)

    def started(
        self, preset: str, out: Path, say: Say = _silent, status: Say = _silent, crew: Crew | None = None
    ) -> Run[Size]:
        """What the study is given at a preset's size."""
        return Run(choose(self.presets, preset), out, say, status, crew)

    def run(
        self,
        preset: str,
        out: Path,
        say: Say = print,
        *,
        status: Say = _silent,
        crew: Crew | None = None,
        **options: object,
    ) -> Report:
        """Run the study at a preset's size, and write ``results.json`` under ``out`` unless only a part was run."""
        run = self.started(preset, out, say, status, crew)
        require_writable(out / "results.json")
        report = self.work(run, **options)
        if report.whole:
            config = run.preset.config() if report.config is None else report.config
            write_results(out, self.title or self.name, self.command(preset, options), config, report.results,
                          tables=report.tables, figures=report.figures)  # fmt: skip
            if report.documents:
                (out / "tables.md").write_text("\n\n".join(table.document() for table in report.tables) + "\n")
        return report


def _quoted(text: str) -> str:
    return f'"{text}"' if " " in text else text

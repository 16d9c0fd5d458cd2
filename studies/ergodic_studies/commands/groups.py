"""Studies as commands: each is imported when its command is asked for, and run by the one runner of studies."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperCommand, TyperGroup

from ergodic.cli.console import Out, console, say
from ergodic.runtime.errors import ConfigError

from ..harness.crew import Workers
from ..harness.study import Study
from .tables import show_tables

_Workers = Annotated[int | None, typer.Option(min=1, help="Processes that make the cells; one when left out.")]
_Executor = Annotated[str | None, typer.Option(help="dask://HOST:PORT of a cluster that makes the cells.")]


def command_of(study: Study, place: str) -> Callable[..., None]:
    """The function behind a study's command: its preset, its own options, who works, and the folder of its files."""
    described = f"{', '.join(study.presets)}: how much is run."
    parameters = [
        _option("preset", Annotated[str, typer.Option(help=described)], "cpu"),
        *study.options(),
        *(_option(name, said, None) for name, said in (("workers", _Workers), ("executor", _Executor)) if study.shared),
        _option("out", Out, Path("runs") / study.name),
    ]

    def command(preset: str, out: Path, **options: object) -> None:
        from ..report.page import write_page

        given = {name: None if value == [] else value for name, value in options.items()}
        workers, executor = (given.pop(name, None) for name in ("workers", "executor"))
        if workers is not None and executor is not None:
            raise ConfigError("--workers are processes here, an --executor is elsewhere: give one of them")
        who = workers if executor is None else executor
        crew = None if who is None else Workers(who, f"ergodic_studies.{place}", preset, out, given)
        with console.status(study.name) as status:
            report = study.run(preset, out, say, status=status.update, crew=crew, **given)
        show_tables(report.tables)
        if report.whole:
            say(f"\nresults  {out / 'results.json'}\nreport   {write_page(out)}")

    command.__doc__ = study.work.__doc__
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def _option(name: str, annotation: object, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def found_at(place: str) -> Study | Callable[..., None]:
    """The study, or the function that is a command as it is, at ``"module:name"`` of the studies; imported now."""
    module, _, name = place.partition(":")
    found: Study | Callable[..., None] = getattr(importlib.import_module(f"ergodic_studies.{module}"), name)
    return found


def group(summary: str, places: Mapping[str, str]) -> typer.Typer:
    """A group of commands from ``"module:name"`` of each: a study, or a function that is a command as it is."""

    class Lazy(TyperGroup):
        """Commands that are imported one at a time, so that `ergodic --help` imports none of them."""

        def list_commands(self, ctx: object) -> list[str]:
            """The commands' names, in the order of the registry."""
            return list(places)

        def get_command(self, ctx: object, cmd_name: str) -> TyperCommand | None:
            """The command of that name, imported now."""
            if cmd_name not in places:
                return None
            found = found_at(places[cmd_name])
            app = typer.Typer(add_completion=False)
            app.command(cmd_name)(command_of(found, places[cmd_name]) if isinstance(found, Study) else found)
            command = typer.main.get_command(app)
            assert isinstance(command, TyperCommand)
            return command

    app = typer.Typer(cls=Lazy, no_args_is_help=True, help=summary)
    app.callback()(lambda: None)
    return app

"""Commands for whole runs: the paper's studies, and the page of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ergodic.cli.console import Out, console, say

Images = Annotated[str, typer.Option(help="digits, mnist or fashion-mnist; `ergodic data list` says what is there.")]
_WHOLE = 1000
"""Columns of a file or a pipe: more than any table has."""


def entropy(
    preset: Annotated[str, typer.Option(help="smoke, cpu or paper.")] = "cpu",
    out: Out = Path("runs/entropy"),
) -> None:
    """Section 3.3: the entropy constraint. Two figures of the paper, one of ours, and which claims hold."""
    from ergodic.runtime.files import require_writable

    from ..paper.entropy import reproduce
    from ..report.page import write_page

    require_writable(out / "results.json")
    reproduce(preset, out, say)
    say(f"\nfigures and results in {out}, and the page {write_page(out)}")


def synthetic(
    preset: Annotated[str, typer.Option(help="smoke, cpu or paper.")] = "cpu",
    out: Out = Path("runs/synthetic"),
) -> None:
    """Section 4.1: every method on the six targets. Tables 2 and 3 (left), the figures, and the report page.

    A run that was stopped goes on where it was when it is started again with the same --out.
    """
    from ..paper.synthetic import reproduce

    run_study(out, lambda: reproduce(preset, out, say))


def floor(
    preset: Annotated[str, typer.Option(help="smoke, cpu, or check: cpu with other seeds.")] = "cpu",
    out: Out = Path("runs/floor"),
) -> None:
    """How far above H(π) the entropy floor should be: estimates of H(π), and the quality of draws by margin."""
    from ..paper.floor import reproduce

    run_study(out, lambda: reproduce(preset, out, say))


def safeguards(
    preset: Annotated[str, typer.Option(help="smoke, cpu, or check: cpu with other seeds.")] = "cpu",
    out: Out = Path("runs/safeguards"),
) -> None:
    """What HEI's safeguards are worth: each alone and all together against plain EI, on targets that are known.

    A run that was stopped goes on where it was when it is started again with the same --out.
    """
    from ..paper.safeguards import reproduce

    run_study(out, lambda: reproduce(preset, out, say))


def run_study(out: Path, work: Callable[[], dict[str, Any]], *, page: bool = True) -> None:
    """Do the work of a study or a benchmark; show its tables, and write its page."""
    from ergodic.runtime.files import require_writable

    from ..report.page import write_page

    require_writable(out / "results.json")
    show_tables(work()["tables"])
    if page:
        say(f"\nreport   {write_page(out)}")


def show_tables(tables: list[dict[str, Any]]) -> None:
    """A study's tables on the console; in a file or a pipe nothing of them is cut off."""
    for table in map(_table, tables):
        say()
        (console if console.is_terminal else Console(width=_WHOLE)).print(table)


def _table(table: dict[str, Any]) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="bold", title=Text(table["title"]), title_justify="left")
    for index, column in enumerate(table["columns"]):
        shown.add_column(Text(column), justify="right" if index else "left", no_wrap=True)
    for row in table["rows"]:
        shown.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    return shown


def report(
    run: Annotated[Path, typer.Argument(help="A run's directory, with its results.json.")],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The page; RUN/report.html when left out.")] = None,
) -> None:
    """Make one self-contained HTML page of a run."""
    from ..report.page import write_page

    say(f"report   {write_page(run, out)}")


def generative(
    preset: Annotated[str, typer.Option(help="smoke, cpu or paper (GPU).")] = "cpu",
    data: Images = "digits",
    out: Out = Path("runs/generative"),
    methods: Annotated[list[str] | None, typer.Option(help="Some ways of training only; repeatable.")] = None,
    seeds: Annotated[list[int] | None, typer.Option(help="Some seeds only; repeatable.")] = None,
    collect: Annotated[bool, typer.Option("--collect", help="Train nothing; tables of what is finished.")] = False,
) -> None:
    """Section 4.2: a chain as the encoder of a deep generative model, against VAE, HVI and HVAE, at equal time.

    A run that was stopped goes on where it was, in the middle of training too, when it is started again with the same
    --out. With --methods or --seeds the work can be shared between processes; then --collect.
    """
    from ergodic.cli.generative import describe

    from ..paper.generative import reproduce as run

    def work() -> dict[str, Any]:
        with console.status("training") as status:
            return run(
                preset,
                out,
                say,
                data=data,
                methods=methods or None,
                seeds=seeds or None,
                collect=collect,
                tell=lambda name, row: status.update(f"{name}: {describe(row)}"),
            )

    run_study(out, work, page=not (methods or seeds))


def bnn(
    preset: Annotated[str, typer.Option(help="smoke, cpu or paper.")] = "cpu",
    dataset: Annotated[
        list[str] | None, typer.Option(help="boston, yacht, concrete, wine or diabetes; repeatable.")
    ] = None,
    methods: Annotated[
        list[str] | None, typer.Option(help="Some ways of sampling only, as 'HEI, appendix'; repeatable.")
    ] = None,
    collect: Annotated[bool, typer.Option("--collect", help="Sample nothing; tables of what is there.")] = False,
    out: Out = Path("runs/bnn"),
) -> None:
    """The appendix: Bayesian networks on the UCI tables, HEI against SGHMC and others, 20 splits.

    Without UCI data (`ergodic data fetch uci`) it is the diabetes table. A run that was stopped goes on where it was.
    With --methods the work can be shared between processes; then --collect.
    """
    from ergodic_studies.paper.bnn import reproduce as run

    def work() -> dict[str, Any]:
        return run(preset, out, say, tables=dataset or None, methods=methods or None, collect=collect)

    run_study(out, work, page=not methods)

"""The command line. Each command is a few lines over the library; errors are one line and a non-zero exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .errors import ConfigError, ErgodicError

if TYPE_CHECKING:
    from .experiments.demo import Row
    from .sampler import Sampler
    from .target import Target

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Independent, low-bias draws from an unnormalised log-density: short, tuned chains of HMC.",
    epilog="Add --debug to any command to see the full traceback of an error.",
)
reproduce_app = typer.Typer(no_args_is_help=True, help="Regenerate the paper's tables and figures.")
app.add_typer(reproduce_app, name="reproduce")
# click's base of usage errors, from whichever click typer carries
CommandError: type[Any] = typer.BadParameter.__mro__[2]
out_console = Console(width=None if sys.stdout.isatty() else 110)


def _say(text: str = "") -> None:
    """Print text as it is: no markup (``E[log π*]`` is not a style), no colouring of numbers."""
    out_console.print(text, markup=False, highlight=False, soft_wrap=True)


def _warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)


def _key(seed: int) -> Any:
    import jax

    if not 0 <= seed < 2**63:
        raise ConfigError(f"--seed must be between 0 and 2^63, not {seed}")
    return jax.random.key(seed)


Model = Annotated[str, typer.Argument(help="A built-in target's name, or path/to/file.py:object.")]
Dim = Annotated[int | None, typer.Option(help="Length of the position, when MODEL is a plain function.")]
Seed = Annotated[int, typer.Option(help="Seed of all randomness.")]
Out = Annotated[Path, typer.Option(help="Directory for results and figures.")]


def _version(wanted: bool) -> None:
    if wanted:
        from ._version import __version__

        _say(f"ergodic {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """Independent, low-bias draws from an unnormalised log-density: short, tuned chains of HMC."""


@app.command()
def demo(
    out: Out = Path("runs/demo"),
    draws: Annotated[int, typer.Option("-n", "--draws", help="Draws a target.")] = 100_000,
    seed: Seed = 0,
) -> None:
    """Fit HEI to the paper's six targets, draw, and hold the draws against exact ones."""
    from .experiments.demo import demo as run_demo
    from .report.page import write_page
    from .storage import require_writable
    from .validation import positive_int

    positive_int(draws, "draws")
    require_writable(out / "results.json")
    _say(f"HEI on the paper's six targets, {draws:,} independent draws each (seed {seed})\n")
    rows: list[Row] = []

    def show(row: Row) -> None:
        rows.append(row)
        _say(
            f"  ({row.letter}) {row.target:9s}  compile {row.compile_seconds:4.1f} s  "
            f"tune {row.tuning_seconds:4.2f} s  draw {row.sampling_seconds:4.2f} s  -E log π* {row.estimate:.3f}"
        )

    with out_console.status("compiling and tuning"):
        results, picture = run_demo(out, draws, seed, show)
    _say()
    out_console.print(_demo_table(rows))
    _say(
        "SW: sliced Wasserstein distance to exact draws; floor: between two exact samples.\n"
        "Read SW beside E[log π*]: HEI's objective sees only the latter, which is blind to how\n"
        "mass is split between modes (the ring) and along a ridge (the waves)."
    )
    _say(f"\nfigure   {picture}\nresults  {results}\nreport   {write_page(out)}")


def _demo_table(rows: list[Row]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in (
        "",
        "target",
        "-E log π*",
        "exact",
        "SW",
        "floor",
        "accept",
        "tune s",
        "draw s",
        "draws/s",
    ):
        table.add_column(column, justify="left" if column in ("", "target") else "right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.letter,
            row.target,
            f"{row.estimate:.3f}",
            f"{row.exact:.3f}",
            f"{row.distance:.3f}",
            f"{row.floor:.3f}",
            f"{row.acceptance:.2f}",
            f"{row.tuning_seconds:.2f}",
            f"{row.sampling_seconds:.2f}",
            f"{row.draws_per_second:,.0f}",
        )
    return table


@app.command(name="targets")
def list_targets() -> None:
    """The built-in targets and what is known of them."""
    from . import targets
    from .targets.synthetic import SYNTHETIC

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("paper", "name", "dim", "-E log π*", "log Z", "entropy", "mean", "sd", "what"):
        table.add_column(column, justify="left" if column in ("paper", "name", "what") else "right")
    for name in targets.names():
        target, entry = targets.get(name), SYNTHETIC[name]
        truth = target.require_truth()
        sd = truth.covariance.diagonal() ** 0.5
        table.add_row(
            f"({entry.letter})" if entry.letter else "",
            name,
            str(target.dim),
            f"{-truth.expected_logdensity:.4f}",
            f"{truth.log_z + 0.0:.4f}".replace("-0.0000", "0.0000"),
            f"{truth.entropy:.4f}",
            " ".join(f"{m + 0.0:.2f}".replace("-0.00", "0.00") for m in truth.mean),
            " ".join(f"{s:.2f}" for s in sd),
            entry.title,
        )
    out_console.print(table)


@app.command(name="methods")
def list_methods() -> None:
    """The methods and their settings; change one with `ergodic fit --set name=value`."""
    from dataclasses import asdict

    from .methods import METHODS

    for name, method in METHODS.items():
        out_console.print(f"[bold]{name}[/bold]  {method.title}")
        for setting, value in asdict(method()).items():
            _say(f"    {setting} = {json.dumps(value)}")


@app.command()
def check(model: Model, dim: Dim = None, seed: Seed = 0) -> None:
    """Is this log-density usable? Named checks, each ticked or explained."""
    from .adapters.models import resolve
    from .checks import Check, check_target
    from .errors import TargetError
    from .methods import HEI

    try:
        target, _ = resolve(model, dim)
        checks = check_target(target, _key(seed), HEI().initial(target))
    except TargetError as error:
        checks = [Check("structure", "failed", str(error))]
    marks = {"passed": "[green]✓[/green]", "warning": "[yellow]![/yellow]", "failed": "[red]✗[/red]"}
    for item in checks:
        out_console.print(marks[item.status], end=" ")
        _say(f"{item.name}: {item.message}")
    failed = [item.name for item in checks if item.status == "failed"]
    if failed:
        raise ErgodicError(f"{model} is not usable: {', '.join(failed)}")


@app.command()
def fit(
    model: Model,
    out: Annotated[Path, typer.Option("-o", "--out", help="File to write the sampler to.")],
    method: Annotated[str, typer.Option(help="See `ergodic methods`.")] = "HEI",
    settings: Annotated[
        list[str] | None,
        typer.Option("-s", "--set", help="A setting of the method, as name=value; repeatable."),
    ] = None,
    dim: Dim = None,
    seed: Seed = 0,
) -> None:
    """Tune a method to a target and save the sampler."""
    from dataclasses import replace

    from .adapters.models import resolve
    from .methods import get
    from .sampler import fit as fit_sampler
    from .storage import require_writable

    configured = _configure(get(method), settings or [])
    require_writable(out)
    target, source = resolve(model, dim)
    sampler = replace(fit_sampler(target, _key(seed), configured), source=source)
    sampler.save(out)
    cost = sampler.cost
    _say(
        f"{sampler.method.name} on '{target.name}' (dimension {target.dim}): compile {cost.compile_seconds:.1f} s, "
        f"tuning {cost.run_seconds:.2f} s, {cost.gradients:,} gradients"
    )
    for name, column in sampler.record.items():
        if column.ndim == 1:
            _say(f"  {name}: {column[0]:.4g} -> {column[-1]:.4g} over {len(column)} iterations")
    _say(f"saved {out}")


def _configure(method: Any, settings: list[str]) -> Any:
    """``name=value`` pairs, values read as JSON where they are JSON and as words where not."""
    from dataclasses import fields

    known = {field.name for field in fields(method)}
    chosen: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or name not in known:
            raise ConfigError(f"--set {setting}: use name=value with one of {', '.join(sorted(known))}")
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = {"None": None, "True": True, "False": False}.get(text, text)
        chosen[name] = tuple(value) if isinstance(value, list) else value
    return method(**chosen)


@app.command()
def sample(
    file: Annotated[Path, typer.Argument(help="A sampler written by `ergodic fit`.")],
    n: Annotated[int, typer.Option("-n", "--draws", help="How many draws.")] = 10_000,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="File for the draws, .nc or .npz; FILE with .nc when left out."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="The target, when its file has moved.")] = None,
    dim: Dim = None,
    seed: Seed = 1,
) -> None:
    """Draw from a saved sampler."""
    import warnings

    from .adapters.files import check_format, write_draws
    from .diagnostics.health import worries
    from .errors import DrawsWarning
    from .storage import require_writable
    from .validation import positive_int

    positive_int(n, "-n, the number of draws,")
    out = file.with_suffix(".nc") if out is None else out
    check_format(out)
    require_writable(out)
    sampler = _open(file, model, dim)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DrawsWarning)  # said below
        draws = sampler.sample(_key(seed), n)
    write_draws(draws, out)
    cost, stats = draws.cost, draws.stats
    _say(
        f"{n:,} {draws.kind} draws of '{draws.target.name}' in {cost.run_seconds:.2f} s "
        f"(+ {cost.compile_seconds:.1f} s compile), {cost.depth} gradients a draw"
    )
    _say(
        f"E[log π*] {draws.mean(draws.logdensity):.5g}   "
        + "   ".join(f"{name} {column.mean():.3g}" for name, column in stats.items() if name != "log_weight")
    )
    if not draws.independent:
        _say(f"worth {draws.effective_size():,.0f} independent draws")
    if draws.kind == "weighted":
        estimate, error = draws.log_z()
        _say(f"log Z {estimate:.4f} ± {error:.4f}")
    for worry in worries(draws):
        _warn(worry)
    _say(f"saved {out}")


def _open(file: Path, model: str | None, dim: int | None) -> Sampler:
    from .adapters.models import resolve, resolve_source
    from .storage import load, read

    target: Target
    if model is not None:
        target, _ = resolve(model, dim)
    else:
        target, warning = resolve_source(read(file)[0]["source"], file.absolute().parent)
        if warning:
            _warn(warning)
    return load(file, target)


@reproduce_app.command()
def entropy(
    preset: Annotated[str, typer.Option(help="smoke, cpu or paper.")] = "cpu",
    out: Out = Path("runs/entropy"),
) -> None:
    """Section 3.3: the entropy constraint. Two figures of the paper, one of ours, and which claims hold."""
    from .experiments.entropy import reproduce
    from .report.page import write_page
    from .storage import require_writable

    require_writable(out / "results.json")
    reproduce(preset, out, _say)
    _say(f"\nfigures and results in {out}, and the page {write_page(out)}")


@reproduce_app.command()
def synthetic(
    preset: Annotated[str, typer.Option(help="smoke, cpu or paper.")] = "cpu",
    out: Out = Path("runs/synthetic"),
) -> None:
    """Section 4.1: every method on the six targets. Tables 2 and 3 (left), the figures, and the report page.

    A run that was stopped goes on where it was when it is started again with the same --out.
    """
    from .experiments.synthetic import reproduce
    from .report.page import write_page
    from .storage import require_writable

    require_writable(out / "results.json")
    results = reproduce(preset, out, _say)
    for table in results["tables"]:
        _say()
        out_console.print(_table(table))
    _say(f"\nreport   {write_page(out)}")


def _table(table: dict[str, Any]) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="bold", title=Text(table["title"]), title_justify="left")
    for index, column in enumerate(table["columns"]):
        shown.add_column(column, justify="right" if index else "left", no_wrap=True)
    for row in table["rows"]:
        shown.add_row(*("" if cell is None else str(cell) for cell in row))
    return shown


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="A run's directory, with its results.json.")],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The page; RUN/report.html when left out.")] = None,
) -> None:
    """Make one self-contained HTML page of a run."""
    from .report.page import write_page

    _say(f"report   {write_page(run, out)}")


def main(argv: list[str] | None = None) -> None:
    """Entry point: run a command; print an error as one line unless --debug is given."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    try:
        try:
            code = app([word for word in words if word != "--debug"], prog_name="ergodic", standalone_mode=False)
        except SystemExit as stop:  # typer turns Ctrl-C into this, silently
            code = stop.code
        if code == 130:
            raise KeyboardInterrupt
    except (KeyboardInterrupt, typer.Abort):
        print("interrupted: nothing further was written", file=sys.stderr)
        sys.exit(130)
    except CommandError as error:
        message = error.format_message()
        print(f"error: {message} (see ergodic --help)" if message else "", file=sys.stderr)
        sys.exit(2)
    except Exception as error:
        if debug:
            raise
        kind = "" if isinstance(error, ErgodicError) else f"{type(error).__name__}: "
        first = (str(error).strip().splitlines() or ["(no message)"])[0]
        print(f"error: {kind}{first}", file=sys.stderr)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)

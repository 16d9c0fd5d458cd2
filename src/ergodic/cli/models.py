"""Commands for a model: what is there, is it usable, fit it, draw from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from ..runtime.errors import ConfigError, ErgodicError
from .console import Dim, Model, Seed, console, key_of, say, warn

if TYPE_CHECKING:
    from ..draws import Draws
    from ..runtime.programs import Cost
    from ..sampler import Sampler
    from ..target import Target

_ROWS = 12  # coordinates of a summary on the terminal
_OPEN = "az.InferenceData.from_datatree(xr.open_datatree(path, engine='zarr'))"


def list_targets() -> None:
    """The built-in targets and what is known of them."""
    from .. import targets
    from ..runtime.data_files import ORIGINS, VARIABLE, available
    from ..targets.classics import CLASSICS
    from ..targets.posteriors import POSTERIORS
    from ..targets.synthetic import SYNTHETIC

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("paper", "name", "dim", "-E log π*", "log Z", "entropy", "mean", "sd", "what"):
        table.add_column(
            column, justify="left" if column in ("paper", "name", "what") else "right", no_wrap=column == "name"
        )
    known: dict[str, Any] = {**SYNTHETIC, **CLASSICS}
    for name, entry in known.items():
        target = targets.get(name)
        truth = target.require_truth()
        letter = getattr(entry, "letter", "")
        few = target.dim <= 2
        sd = truth.covariance.diagonal() ** 0.5
        table.add_row(
            f"({letter})" if letter else "",
            name,
            str(target.dim),
            f"{-truth.expected_logdensity:.4f}",
            f"{truth.log_z + 0.0:.4f}".replace("-0.0000", "0.0000"),
            f"{truth.entropy:.4f}",
            " ".join(f"{m + 0.0:.2f}".replace("-0.00", "0.00") for m in truth.mean) if few else "",
            " ".join(f"{s:.2f}" for s in sd) if few else "",
            entry.title,
        )
    for name, posterior in POSTERIORS.items():
        table.add_row("", name, str(posterior.dim), "", "", "", "", "", posterior.title)
    console.print(table)
    for collection in sorted({posterior.collection for posterior in POSTERIORS.values()}):
        if not available(collection):
            needing = ", ".join(name for name, entry in POSTERIORS.items() if entry.collection == collection)
            say(f"\n{needing}: set {VARIABLE} to a folder that has {collection}/ with {ORIGINS[collection]}.")


def list_methods() -> None:
    """The methods and their settings; change one with `ergodic fit --set name=value`."""
    from dataclasses import asdict

    from ..methods import METHODS

    for name, method in METHODS.items():
        console.print(f"[bold]{name}[/bold]  {method.title}")
        for setting, value in asdict(method()).items():
            say(f"    {setting} = {json.dumps(value)}")


def check(model: Model, dim: Dim = None, seed: Seed = 0) -> None:
    """Is this log-density usable? Named checks, each ticked or explained."""
    from ..adapters.sources import resolve
    from ..methods import HEI
    from ..runtime.errors import TargetError
    from ..tuning.checks import Check, check_target

    try:
        target, _ = resolve(model, dim)
        checks = check_target(target, key_of(seed), HEI().initial(target))
    except TargetError as error:
        checks = [Check("structure", "failed", str(error))]
    marks = {"passed": "[green]✓[/green]", "warning": "[yellow]![/yellow]", "failed": "[red]✗[/red]"}
    for item in checks:
        console.print(marks[item.status], end=" ")
        say(f"{item.name}: {item.message}")
    failed = [item.name for item in checks if item.status == "failed"]
    if failed:
        raise ErgodicError(f"{model} is not usable: {', '.join(failed)}")


def fit(
    model: Model,
    out: Annotated[Path, typer.Option("-o", "--out", help="File to write the sampler to.")],
    method: Annotated[str, typer.Option(help="See `ergodic methods`.")] = "GEI",
    settings: Annotated[
        list[str] | None,
        typer.Option("-s", "--set", help="A setting of the method, as name=value; repeatable."),
    ] = None,
    dim: Dim = None,
    seed: Seed = 0,
) -> None:
    """Tune a method to a target and save the sampler."""
    from dataclasses import replace

    from ..adapters.sources import resolve
    from ..api import fit as fit_sampler
    from ..methods import get
    from ..runtime.files import require_writable

    configured = _configure(get(method), settings or [])
    require_writable(out)
    target, source = resolve(model, dim)
    sampler = replace(fit_sampler(target, key_of(seed), configured), source=source)
    sampler.save(out)
    cost = sampler.cost
    say(
        f"{sampler.method.name} on '{target.name}' (dimension {target.dim}): compile {cost.compile_seconds:.1f} s, "
        f"tuning {cost.run_seconds:.2f} s, {cost.gradients:,} gradients"
    )
    for name, column in sampler.record.items():
        if column.ndim == 1 and len(column) == len(sampler.record.get("objective", column)):
            say(f"  {name}: {column[0]:.4g} -> {column[-1]:.4g} over {len(column)} iterations")
    if sampler.certificate is not None:
        say(
            f"  certificate: {sampler.certificate.verdict} (`ergodic certify {out}` says more); "
            f"{sampler.depth} gradients a draw"
        )
    say(f"saved {out}")


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


def sample(
    file: Annotated[Path, typer.Argument(help="A sampler written by `ergodic fit`.")],
    n: Annotated[int, typer.Option("-n", "--draws", help="How many draws.")] = 10_000,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            help="File for the draws: .nc, .npz, or .zarr, which is written as draws are made and goes on after a "
            "kill; FILE with .nc when left out.",
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(help="The target, when its file has moved.")] = None,
    dim: Dim = None,
    seed: Seed = 1,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start a .zarr store anew.")] = False,
) -> None:
    """Draw from a saved sampler."""
    import warnings

    from ..adapters.files import require_place, write_draws
    from ..protocols import Independent
    from ..runtime.errors import DrawsWarning
    from ..runtime.validation import positive_int

    positive_int(n, "-n, the number of draws,")
    out = file.with_suffix(".nc") if out is None else out
    require_place(out)
    sampler = open_sampler(file, model, dim)
    if out.suffix == ".zarr" and isinstance(sampler.method, Independent):
        _stream(sampler, key_of(seed), n, out, overwrite)
    else:
        if out.suffix == ".zarr" and out.exists() and not overwrite:
            raise ConfigError(f"{out} is there already; name another file, or --overwrite it")
        if out.suffix == ".zarr":
            say(f"{sampler.method.name} cannot make draws by their index: all are made in memory, then written")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DrawsWarning)  # said below
            draws = sampler.sample(key_of(seed), n)
            write_draws(draws, out)
        say(f"{n:,} {draws.kind} draws of '{draws.target.name}' {_took(draws.cost)}")
        say(str(draws.summary(_ROWS)))
        _describe(draws)
    say(_certificate(sampler, file))
    say(f"saved {out}" + (f" (open it with {_OPEN})" if out.suffix == ".zarr" else ""))


def _stream(sampler: Sampler, key: Any, n: int, out: Path, overwrite: bool) -> None:
    from ..adapters.streaming import stream, summarise_store
    from ..adapters.zarr_store import read_metadata

    try:
        before, some, cost = stream(sampler, key, n, out, overwrite=overwrite)
    except KeyboardInterrupt:
        if out.exists():
            warn(f"{out} holds the first {read_metadata(out)[1]:,} draws; the same command goes on from there")
        raise
    if some is None:
        say(f"{out} is complete: it has these {n:,} draws of '{sampler.target.name}' already")
    else:
        after = f": {before:,} were there already, {n - before:,} more" if before else ""
        say(f"{n:,} {some.kind} draws of '{sampler.target.name}'{after} {_took(cost)}")
    say(str(summarise_store(out, sampler.target, _ROWS)))
    if some is not None:
        _describe(some, "" if len(some) == n else f"of {len(some):,} of the new draws: ")


def _took(cost: Cost) -> str:
    return f"in {cost.run_seconds:.2f} s (+ {cost.compile_seconds:.1f} s compile), {cost.depth} gradients a draw"


def _describe(draws: Draws, which: str = "") -> None:
    """Averages that are not in the table, and what should worry."""
    from ..diagnostics.health import worries

    columns = {name: column for name, column in draws.stats.items() if name != "log_weight"}
    averages = [f"E[log π*] {draws.mean(draws.logdensity):.5g}", *(f"{k} {v.mean():.3g}" for k, v in columns.items())]
    if not draws.independent:
        averages.append(f"worth {draws.effective_size():,.0f} independent draws")
    if draws.kind == "weighted":
        estimate, error = draws.log_z()
        averages.append(f"log Z {estimate:.4f} ± {error:.4f}")
    say(which + "   ".join(averages))
    for worry in worries(draws):
        warn(worry)


def _certificate(sampler: Sampler, file: Path) -> str:
    certificate = getattr(sampler, "certificate", None)
    return f"certificate: {certificate.verdict if certificate else f'not certified; run ergodic certify {file}'}"


def open_sampler(file: Path, model: str | None, dim: int | None) -> Sampler:
    """A saved sampler, with its target found where it was, or where ``model`` says."""
    from ..adapters.sources import resolve, resolve_source
    from ..api import load
    from ..runtime.sampler_files import read

    target: Target
    if model is not None:
        target, _ = resolve(model, dim)
    else:
        target, warning = resolve_source(read(file)[0]["source"], file.absolute().parent)
        if warning:
            warn(warning)
    return load(file, target)

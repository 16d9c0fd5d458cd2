"""Commands for a model: what is there, is it usable, fit it, draw from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from ..errors import ConfigError, ErgodicError
from .console import Dim, Model, Seed, console, key_of, say, warn

if TYPE_CHECKING:
    from ..sampler import Sampler
    from ..target import Target


def list_targets() -> None:
    """The built-in targets and what is known of them."""
    from .. import targets
    from ..targets.synthetic import SYNTHETIC

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
    console.print(table)


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
    from ..adapters.models import resolve
    from ..checks import Check, check_target
    from ..errors import TargetError
    from ..methods import HEI

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

    from ..adapters.models import resolve
    from ..methods import get
    from ..sampler import fit as fit_sampler
    from ..storage import require_writable

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
        if column.ndim == 1:
            say(f"  {name}: {column[0]:.4g} -> {column[-1]:.4g} over {len(column)} iterations")
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
        typer.Option("-o", "--out", help="File for the draws, .nc or .npz; FILE with .nc when left out."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="The target, when its file has moved.")] = None,
    dim: Dim = None,
    seed: Seed = 1,
) -> None:
    """Draw from a saved sampler."""
    import warnings

    from ..adapters.files import check_format, write_draws
    from ..diagnostics.health import worries
    from ..errors import DrawsWarning
    from ..storage import require_writable
    from ..validation import positive_int

    positive_int(n, "-n, the number of draws,")
    out = file.with_suffix(".nc") if out is None else out
    check_format(out)
    require_writable(out)
    sampler = _open(file, model, dim)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DrawsWarning)  # said below
        draws = sampler.sample(key_of(seed), n)
    write_draws(draws, out)
    cost, stats = draws.cost, draws.stats
    say(
        f"{n:,} {draws.kind} draws of '{draws.target.name}' in {cost.run_seconds:.2f} s "
        f"(+ {cost.compile_seconds:.1f} s compile), {cost.depth} gradients a draw"
    )
    say(
        f"E[log π*] {draws.mean(draws.logdensity):.5g}   "
        + "   ".join(f"{name} {column.mean():.3g}" for name, column in stats.items() if name != "log_weight")
    )
    if not draws.independent:
        say(f"worth {draws.effective_size():,.0f} independent draws")
    if draws.kind == "weighted":
        estimate, error = draws.log_z()
        say(f"log Z {estimate:.4f} ± {error:.4f}")
    for worry in worries(draws):
        warn(worry)
    say(f"saved {out}")


def _open(file: Path, model: str | None, dim: int | None) -> Sampler:
    from ..adapters.models import resolve, resolve_source
    from ..storage import load, read

    target: Target
    if model is not None:
        target, _ = resolve(model, dim)
    else:
        target, warning = resolve_source(read(file)[0]["source"], file.absolute().parent)
        if warning:
            warn(warning)
    return load(file, target)

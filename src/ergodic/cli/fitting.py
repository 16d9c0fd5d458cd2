"""The command that tunes a method to a target and saves the sampler."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..adapters.sources import resolve
from ..api import fit as fit_sampler
from ..methods import get
from ..protocols import Method
from ..runtime.errors import ConfigError
from ..runtime.files import require_writable
from ..runtime.writing import sole_writer
from .console import Dim, Model, Seed, key_of, say

_WORDS = {"None": None, "True": True, "False": False}


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
    max_seconds: Annotated[float | None, typer.Option(help="How long it may take; the best so far is saved.")] = None,
    max_gradients: Annotated[float | None, typer.Option(help="How many gradients it may spend.")] = None,
) -> None:
    """Tune a method to a target and save the sampler."""
    configured = configure(get(method), settings or [])
    require_writable(out)
    with sole_writer(out):
        target, source = resolve(model, dim)
        sampler = fit_sampler(target, key_of(seed), configured, max_seconds=max_seconds, max_gradients=max_gradients)
        sampler = replace(sampler, source=source)
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
            f"{sampler.depth} gradients per draw"
        )
    say(f"saved {out}")


def configure(method: type[Method], settings: list[str]) -> Method:
    """A method with settings given as ``name=value``; values are read as JSON where they are JSON, else as words."""
    known = inspect.signature(method).parameters
    chosen: dict[str, object] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or name not in known:
            raise ConfigError(f"--set {setting}: use name=value with one of {', '.join(sorted(known))}")
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = _WORDS.get(text, text)
        chosen[name] = tuple(value) if isinstance(value, list) else value
    return method(**chosen)

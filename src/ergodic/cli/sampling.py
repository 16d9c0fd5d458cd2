"""The command that draws from a saved sampler, and how saved samplers are opened."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer
from jaxtyping import Array

from ..adapters.files import require_place, write_draws
from ..adapters.sources import resolve, resolve_source
from ..adapters.streaming import stream, summarise_store
from ..adapters.zarr_store import read_metadata
from ..api import load
from ..bnn.fitted import target_in
from ..diagnostics.health import worries
from ..draws import Draws
from ..protocols import Independent
from ..runtime import arviz
from ..runtime.errors import ConfigError, DrawsWarning
from ..runtime.hosts import Share, share
from ..runtime.programs import Cost
from ..runtime.sampler_files import read
from ..runtime.validation import positive_int
from ..runtime.writing import sole_writer
from ..sampler import Sampler
from .console import Dim, Seed, key_of, say, warn

_ROWS = 12  # coordinates of a summary on the terminal
_OPEN = "az.InferenceData.from_datatree(xr.open_datatree(path, engine='zarr'))"


def sample(
    file: Annotated[Path, typer.Argument(help="A sampler written by `ergodic fit`.")],
    n: Annotated[int, typer.Option("-n", "--draws", help="How many draws.")] = 10_000,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            help="File for the draws: .nc, .npz, or .zarr, which is written as draws are made and goes on after a "
            "kill; FILE with .nc when left out (.npz without ArviZ).",
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(help="The target, when its file has moved.")] = None,
    dim: Dim = None,
    seed: Seed = 1,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start a .zarr store anew.")] = False,
    weighted: Annotated[
        bool, typer.Option("--weighted", help="Runs with their weights, where a method has them (sample_stats).")
    ] = False,
    coordinator: Annotated[
        str | None,
        typer.Option(
            help="Several processes fill one .zarr store: HOST:PORT of process 0, where they meet before they begin; "
            "'auto' where JAX finds them by itself (SLURM, Open MPI, Kubernetes, TPU pods)."
        ),
    ] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="How many processes fill the store.")] = None,
    process: Annotated[int | None, typer.Option(min=0, help="Which of them this is, from 0 on.")] = None,
    devices: Annotated[
        int | None, typer.Option(min=1, help="Devices of this process; all but for CPUs when left out.")
    ] = None,
) -> None:
    """Draw from a saved sampler."""
    positive_int(n, "-n, the number of draws,")
    mine = share(coordinator, processes, process)
    out = file.with_suffix(".nc" if arviz.available() else ".npz") if out is None else out
    require_place(out)
    sampler = open_sampler(file, model, dim)
    if out.suffix == ".zarr" and isinstance(sampler.method, Independent):
        if not _stream(sampler, key_of(seed), n, out, overwrite, weighted, mine, devices):
            return
    else:
        if mine.count > 1:
            raise ConfigError("several processes fill a .zarr store of independent draws; name one by -o, or leave out"
                              " --coordinator, --processes and --process")  # fmt: skip
        if out.suffix == ".zarr" and out.exists() and not overwrite:
            raise ConfigError(f"{out} is there already; name another file, or --overwrite it")
        if out.suffix == ".zarr":
            say(f"{sampler.method.name} cannot make draws by their index: all are made in memory, then written")
        with sole_writer(out), warnings.catch_warnings():
            warnings.simplefilter("ignore", DrawsWarning)  # said below
            draws = sampler.sample(key_of(seed), n, weighted=weighted, devices=devices)
            write_draws(draws, out)
        say(f"{n:,} {draws.kind} draws of '{draws.target.name}' {_took(draws.cost)}")
        say(str(draws.summary(_ROWS)))
        _describe(draws)
    say(_certificate(sampler, file))
    say(f"saved {out}" + (f" (open it with {_OPEN})" if out.suffix == ".zarr" else ""))


def _stream(
    sampler: Sampler, key: Array, n: int, out: Path, overwrite: bool, weighted: bool, mine: Share, devices: int | None
) -> bool:
    """Write a store, or a share of it; whether it is complete."""
    try:
        done = stream(sampler, key, n, out, weighted=weighted, overwrite=overwrite, share=mine, devices=devices)
    except KeyboardInterrupt:
        if out.exists():
            warn(f"{out} holds the first {read_metadata(out)[1]:,} draws; the same command goes on from there")
        raise
    before, some, cost, after, mended = done
    for damage in mended:
        warn(f"{out}/{damage}; it was drawn again")
    if after < n:
        missing = "the others are not done: run again those that have failed, or any number of processes"
        say(f"{mine} has made its part {_took(cost)}")
        say(f"{out} holds the first {after:,} of {n:,} draws; {missing}")
        return False
    if some is None or n == before:
        say(f"{out} is complete: it has these {n:,} draws of '{sampler.target.name}' already")
    else:
        said = f": {before:,} were there already, {n - before:,} more" if before else ""
        said += f", by {mine} and the others" if mine.count > 1 else ""
        say(f"{n:,} {some.kind} draws of '{sampler.target.name}'{said} {_took(cost)}")
    say(str(summarise_store(out, sampler.target, _ROWS)))
    if some is not None:
        _describe(some, "" if len(some) == n else f"of {len(some):,} of the new draws: ")
    return True


def _took(cost: Cost) -> str:
    return f"in {cost.run_seconds:.2f} s (+ {cost.compile_seconds:.1f} s compile), {cost.depth} gradients per draw"


def _describe(draws: Draws, which: str = "") -> None:
    """Say the averages that are not in the table, and warn of what speaks against the draws."""
    columns = {name: column for name, column in draws.stats.items() if name not in ("log_weight", "copies")}
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
    certificate = sampler.certificate
    return f"certificate: {certificate.verdict if certificate else f'not certified; run ergodic certify {file}'}"


def open_sampler(file: Path, model: str | None, dim: int | None) -> Sampler:
    """Open a saved sampler, for the target that MODEL names, or that it was fitted to where the user has named that.

    Where MODEL is of another text than what was certified, there is no certificate.
    """
    source = read(file)[0]["source"]
    if model is not None:
        target, now = resolve(model, dim)
    elif "network" in source:  # the rows that it was fitted to are in the file
        target, now = target_in(file), source
    else:
        target, now = resolve_source(source), source
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DrawsWarning)
        sampler = load(file, target)
    for said in caught:
        warn(str(said.message))
    if now.get("sha256") != source.get("sha256") and sampler.certificate is not None:
        warn(f"{file} has no certificate for {model}, whose text is not the one that was certified; certify it again")
        sampler.certificate = None
    sampler.source = now
    return sampler

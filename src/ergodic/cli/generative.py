"""Commands for deep generative models: train one, judge one, and the paper's section 4.2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypedDict, cast

import typer

from .console import Out, Seed, console, say, warn

if TYPE_CHECKING:
    from ..generative.training import Row
    from ..generative.training_settings import Recipe

Data = Annotated[str, typer.Option(help="digits, mnist or fashion-mnist; `ergodic data list` says what is there.")]

_STEPS, _LEAPFROGS = 10, 5


class RunSettings(TypedDict):
    """What ``model.json`` says of a run: the options that decide it."""

    data: str
    method: str
    batch: int
    seed: int
    steps: NotRequired[int]
    leapfrogs: NotRequired[int]


_SETTINGS = dict.fromkeys(("data", "method"), "str") | dict.fromkeys(("batch", "seed", "steps", "leapfrogs"), "int")
"""What JSON has for each of them."""


def train(
    method: Annotated[
        str, typer.Option(help="VAE, HVI, HVAE, HVAE tempered, HEI, HEI warm or HEI warm whitened.")
    ] = "HEI",
    data: Data = "digits",
    budget: Annotated[str, typer.Option(help="90s, 30m, 2h, or a number of epochs.")] = "60s",
    steps: Annotated[int | None, typer.Option(help="T, transitions of HEI's chain; 10.")] = None,
    leapfrogs: Annotated[int | None, typer.Option(help="L, leapfrogs per transition of it; 5.")] = None,
    batch: Annotated[int, typer.Option(help="Images per iteration.")] = 128,
    every: Annotated[float, typer.Option(help="Seconds of training between checkpoints.")] = 60.0,
    seed: Seed = 0,
    out: Out = Path("runs/model"),
) -> None:
    """Train a decoder with an encoder.

    A run that was stopped goes on from its last checkpoint (--every) when the same command is given again.
    """
    import jax

    from ..datasets.images import load
    from ..generative.training import train as run
    from ..generative.training_settings import parse_budget
    from ..runtime.errors import ConfigError
    from ..runtime.files import require_writable, write_atomically
    from ..runtime.validation import positive_float
    from ..runtime.writing import sole_writer

    if method != "HEI" and (steps or leapfrogs):
        raise ConfigError(f"--steps and --leapfrogs are of HEI's chain from the prior; '{method}' has its own")
    model: RunSettings = {"data": data, "method": method, "batch": batch, "seed": seed}
    if method == "HEI":
        model |= {"steps": steps or _STEPS, "leapfrogs": leapfrogs or _LEAPFROGS}
    chosen, spent = _recipe(model), parse_budget(budget)
    positive_float(every, "every")
    require_writable(out / "checkpoint")
    if (out / "model.json").is_file() and _model(out) != model:
        raise ConfigError(f"{out} is of a run with other settings ({_model(out)}); give another --out")
    write_atomically(out / "model.json", (json.dumps(model, indent=1) + "\n").encode())
    try:
        with sole_writer(out / "checkpoint"), console.status("compiling") as status:
            images = load(data)
            trained = run(
                images.train,
                chosen,
                spent,
                jax.random.key(seed),
                out,
                every=every,
                tell=lambda row: status.update(describe(row)),
            )
    except KeyboardInterrupt:
        if (out / "checkpoint").is_file():
            warn(f"{out / 'checkpoint'} holds the run so far; the same command goes on from there")
        raise
    say(
        f"{method} on {data}: {trained.iterations:,} iterations "
        f"({trained.iterations * batch / len(images.train):,.1f} epochs) in {trained.seconds:,.1f} s, "
        f"compiling {trained.compile_seconds:.1f} s apart; objective {trained.history['objective'][-1]:.3f}"
    )
    say(f"checkpoint  {out / 'checkpoint'}\njudge it    ergodic generative judge {out}")


def judge(
    run: Annotated[Path, typer.Argument(help="The folder of a trained model.")],
    images: Annotated[int, typer.Option(help="Test images.")] = 100,
    temperatures: Annotated[
        int, typer.Option(help="Between the prior and the posterior: more, and the bound is closer.")
    ] = 1000,
    chains: Annotated[int, typer.Option(help="Annealed runs for each image.")] = 16,
    simulated: Annotated[int, typer.Option(help="Images made up by the model, for the sandwich.")] = 50,
    seed: Seed = 0,
) -> None:
    """Test log-likelihood of a trained model, its errors, and the width of its sandwich."""
    import jax

    from ..datasets.images import load
    from ..generative.likelihood import Annealing, likelihood_gap, log_likelihood
    from ..generative.training import read_mark
    from ..runtime.errors import ConfigError

    for value, name, least in (
        (images, "images", 1),
        (simulated, "simulated", 2),
        (chains, "chains", 2),
        (temperatures, "temperatures", 2),
    ):
        if value < least:
            raise ConfigError(f"--{name} must be at least {least}, not {value}")
    model = _model(run)
    data = load(model["data"])
    kept = read_mark(run, "checkpoint", _recipe(model), data.train.shape)
    annealing, key = Annealing(temperatures, 2, chains), jax.random.key(seed)
    with console.status("annealing"):
        found = log_likelihood(kept.state.decoder, data.test[:images], key, annealing).summary()
        gap = likelihood_gap(kept.state.decoder, key, simulated, annealing)
    say(
        f"{model['method']} on {model['data']} after {kept.seconds:,.1f} s\n"
        f"log p(y)   {found['log_likelihood']:.3f}  ± {found['error']:.3f} Monte Carlo  "
        f"± {found['error_over_images']:.2f} over {found['images']} test images\n"
        f"ESS        {found['effective']:.1f} of {chains} chains\n"
        f"sandwich   {gap.width:.3f} ± {gap.error:.3f} nats, on {simulated} images that the model made up"
    )


def _model(run: Path) -> RunSettings:
    """The settings that a run's folder says it has."""
    from ..runtime.errors import ConfigError, StorageError
    from ..runtime.files import parsed
    from ..runtime.validation import record

    file = run / "model.json"
    if not file.is_file():
        raise StorageError(f"{file}: there is no such file; `ergodic generative train --out {run}` writes it")
    found = parsed(file.read_bytes(), str(file))
    try:
        known: dict[str, Any] = record(dict, found, "it", _SETTINGS)
        return cast(RunSettings, known | {name: known[name] for name in ("data", "method", "batch", "seed")})
    except (ConfigError, KeyError) as error:
        raise StorageError(f"{file} is damaged: {error}") from error


def _recipe(model: RunSettings) -> Recipe:
    from ..generative.recipes import recipe

    return recipe(model["method"], model.get("steps", _STEPS), model.get("leapfrogs", _LEAPFROGS), model["batch"])


def describe(row: Row) -> str:
    """One line of progress, from the latest row of a run's history."""
    more = "".join(f"  {name} {row[name]:.2f}" for name in ("acceptance", "scale") if name in row)
    left, spent = row["left"], 1 - row["left"]
    remaining = row["seconds"] * left / spent if spent > 0 else float("inf")
    return (
        f"iteration {row['iteration']:,}  objective {row['objective']:.2f}{more}  "
        f"{row['rate']:,.0f} images/s  {row['seconds']:,.0f} s  about {max(remaining, 0):,.0f} s left"
    )

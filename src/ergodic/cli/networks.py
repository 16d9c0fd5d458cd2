"""Commands for Bayesian networks on a user's own table: fit, and predict."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Annotated

import typer

from .console import Seed, console, say

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def fit(
    table: Annotated[Path, typer.Argument(help="A CSV file of numbers, with a header.")],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The fitted networks.")] = Path("network.ergodic"),
    hidden: Annotated[
        list[int] | None, typer.Option(help="Units of the hidden layer, 50 unless told; again for a further layer.")
    ] = None,
    networks: Annotated[int, typer.Option(help="Networks to sample.")] = 200,
    effort: Annotated[
        float, typer.Option(help="Length of the chain's transitions in units of the default; time grows with it.")
    ] = 1.0,
    seed: Seed = 0,
) -> None:
    """Sample Bayesian networks given a table: a long, tuned chain of HMC on their posterior.

    FILE is a sampler: `ergodic sample` draws more networks from it, `ergodic certify` looks for evidence against it.
    """
    import jax

    from ..bnn.csv_table import training_rows
    from ..bnn.fitted import fit as run
    from ..bnn.fitted import fitted
    from ..runtime.files import require_writable
    from ..runtime.validation import positive_float, positive_int
    from ..runtime.writing import sole_writer

    positive_float(effort, "effort")
    layers = tuple(positive_int(units, "hidden") for units in hidden or (50,))
    positive_int(networks, "networks")
    _apart(out, table)
    require_writable(out)
    features, x, y = training_rows(table, target)
    with sole_writer(out):
        with console.status("tuning and sampling"):
            sampler, expected = run(
                x, y, features, target, jax.random.key(seed), hidden=layers, networks=networks, effort=effort
            )
        sampler.save(out)
    mixture = fitted(sampler.source, sampler.extra).predict(x)
    middle, late = (float(expected[round(part * (len(expected) - 1))]) for part in (0.5, 0.8))
    units = " and ".join(map(str, layers))
    rising = " (still rising: raise --effort)" if expected[-1] - late > 0.05 * len(y) else ""
    say(
        f"{networks} networks of {units} units given {len(y)} rows of {len(features)} columns\n"
        f"predictors {', '.join(features)}\n"
        f"E log p(w, y) along the chain  {expected[0]:.1f} → {middle:.1f} → {expected[-1]:.1f}{rising}\n"
        f"on the rows it was fitted to   RMSE {mixture.rmse(y):.4g}, {100 * mixture.coverage(y, 0.9):.0f} % of them in "
        f"90 % intervals\nsaved     {out}\npredict   ergodic bnn predict {out} NEW.csv\n"
        f"look at   ergodic certify {out} -n 1000"
    )


def predict(
    model: Annotated[Path, typer.Argument(help="What `ergodic bnn fit` wrote.")],
    table: Annotated[Path, typer.Argument(help="A CSV file with the same columns; the target's may be there or not.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="File for the predictions.")] = Path("predictions.csv"),
) -> None:
    """Predict new rows: mean, standard deviation and quantiles."""
    from ..bnn.csv_table import new_rows
    from ..bnn.fitted import load
    from ..runtime.files import require_writable, write_atomically

    _apart(out, model, table)
    require_writable(out)
    fitted = load(model)
    mixture = fitted.predict(new_rows(table, fitted.features, fitted.target))
    columns = [mixture.mean, mixture.sd, *(mixture.quantile(level) for level in QUANTILES)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["mean", "sd", *(f"q{100 * level:02.0f}" for level in QUANTILES)])
    writer.writerows([f"{value:.12g}" for value in row] for row in zip(*columns, strict=True))
    write_atomically(out, text.getvalue().encode())
    say(f"{len(columns[0])} predictions of '{fitted.target}' by {len(fitted.positions)} networks\nsaved  {out}")


def _apart(out: Path, *inputs: Path) -> None:
    """Refuse an output file that is one of the inputs."""
    from ..runtime.errors import ConfigError

    for path in inputs:
        if out.resolve() == path.resolve():
            raise ConfigError(f"{out} is read here, and would be written over; give another -o")

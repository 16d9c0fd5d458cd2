"""The command line. Each command is a few lines over the library; errors are one line and a non-zero exit code."""

from __future__ import annotations

import io
import sys
from importlib.metadata import entry_points
from typing import Annotated, cast

import typer

from .._version import __version__
from ..runtime.data_files import cache_folder
from ..runtime.errors import ErgodicError, StorageError
from ..runtime.extras import explained
from ..runtime.programs import keep_programs
from . import certificates, checking, data, demo, fitting, generative, listings, networks, sampling, verifying
from .console import say

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Independent, low-bias draws from an unnormalised log-density: short, tuned chains of HMC.",
    epilog="Add --debug to any command to see the full traceback of an error.",
)
models_of_images = typer.Typer(no_args_is_help=True, help="Deep generative models: train, and judge by likelihood.")
bayesian_networks = typer.Typer(no_args_is_help=True, help="Bayesian networks on your own table: fit, and predict.")
data_sets = typer.Typer(no_args_is_help=True, help="The data sets: what there is, fetch what is missing.")


app.command()(demo.demo)
app.command("targets")(listings.list_targets)
app.command("methods")(listings.list_methods)
app.command()(checking.check)
app.command()(fitting.fit)
app.command()(sampling.sample)
app.command()(certificates.certify)
app.command()(verifying.verify)
app.add_typer(models_of_images, name="generative")
models_of_images.command()(generative.train)
models_of_images.command()(generative.judge)
app.add_typer(bayesian_networks, name="bnn")
bayesian_networks.command()(networks.fit)
bayesian_networks.command()(networks.predict)
app.add_typer(data_sets, name="data")
data_sets.command("list")(data.list_data)
data_sets.command("fetch")(data.fetch_data)


def _elsewhere(context: typer.Context) -> None:
    """Say where a command of the studies is to be found."""
    raise ErgodicError(
        f"`ergodic {context.info_name}` comes with the studies, which are not part of this package: run `make` in a "
        "checkout of the repository, and it is there"
    )


PLUGINS = tuple(entry_points(group="ergodic.commands"))
"""What other packages add to the command line: the studies' commands, in every checkout."""
for plugin in PLUGINS:
    plugin.load()(app)
for name in () if PLUGINS else ("report", "reproduce", "bench"):
    anything = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command(name, hidden=True, add_help_option=False, context_settings=anything)(_elsewhere)

# click's base of usage errors, from whichever click typer carries
CommandError = cast(type[typer.BadParameter], typer.BadParameter.__mro__[2])


def _version(wanted: bool) -> bool:
    if wanted:
        say(f"ergodic {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """Independent, low-bias draws from an unnormalised log-density: short, tuned chains of HMC."""
    keep_programs(cache_folder() / "programs")


def main(argv: list[str] | None = None) -> None:
    """Entry point: run a command; print an error as one line unless --debug is given."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may have no π
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
        if isinstance(error, ModuleNotFoundError):
            error = explained(error) or error
        if isinstance(error, OSError) and error.filename is not None:  # of a file that was named on the line
            error = StorageError(f"{str(error.filename)[:200]} cannot be used: {error.strerror}")
        kind = "" if isinstance(error, ErgodicError) else f"{type(error).__name__}: "
        first = (str(error).strip().splitlines() or ["(no message)"])[0]
        print(f"error: {kind}{first}", file=sys.stderr)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)

"""Commands run in this process, through their real entry point."""

from ergodic.cli import main

MODEL = """
import jax.numpy as jnp
import ergodic as eg
import neighbour

def logdensity(x):
    return -neighbour.HALF * jnp.sum((x - 1.0) ** 2)

def vector(x):
    return x

target = eg.Target(logdensity, like=jnp.zeros(3), name="mine")
number = 3
"""


def run(capsys, *words):
    """Exit code, stdout and stderr of a command."""
    try:
        main([str(word) for word in words])
        code = 0
    except SystemExit as stop:
        code = stop.code or 0
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def fails(capsys, *words):
    """The one line of the error with which a command fails."""
    code, _, err = run(capsys, *words)
    assert code == 1
    assert err.startswith("error: ") and err.count("\n") == 1 and "Traceback" not in err
    return err

"""Log-densities of a position and data, at the top of a module: where a worker can find them by their names."""

import os
import signal
from pathlib import Path

import jax.numpy as jnp


def normal(x, data):
    """Rows y ~ N(x, 1), a standard normal prior."""
    return -0.5 * jnp.sum(x**2) - 0.5 * jnp.sum((data["y"] - x[None]) ** 2)


def square(number):
    """A task that is no inference."""
    return number * number


def fatal(number, folder):
    """A task that kills its worker the first time it runs."""
    mark = Path(folder) / str(number)
    if number % 3 == 0 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number

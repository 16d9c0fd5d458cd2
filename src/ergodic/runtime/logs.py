"""What the library says of its work, by the standard module: the logger "ergodic".

INFO has a line for every part of a fit (pilot, tuning, certificate) with its steps, gradients and seconds; WARNING has
what must be seen, and goes to stderr unless the program configures logging otherwise.
"""

from __future__ import annotations

import logging
import sys

from .errors import ConfigError

logger = logging.getLogger("ergodic")
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "silent": 60}


class _OnStderr(logging.StreamHandler):
    """Lines on stderr, wherever that is when they are written."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line to where stderr is now."""
        self.stream = sys.stderr
        super().emit(record)


def set_verbosity(level: str) -> None:
    """Say more or less on stderr: ``"debug"``, ``"info"``, ``"warning"`` (as at first), ``"error"`` or ``"silent"``.

    A program that configures `logging` itself needs no more than ``logging.getLogger("ergodic").setLevel(...)``.
    """
    if level not in LEVELS:
        raise ConfigError(f"set_verbosity takes one of {', '.join(LEVELS)}, not {level!r}")
    if not any(isinstance(handler, _OnStderr) for handler in logger.handlers):
        handler = _OnStderr()
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        logger.addHandler(handler)
        logger.propagate = False  # or a configured root would say it again
    logger.setLevel(LEVELS[level])

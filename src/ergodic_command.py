"""The command `ergodic`: nothing but a Ctrl-C while the library is imported, which is then said in one line."""

from __future__ import annotations

import sys


def main() -> None:
    """Import the command line and run it."""
    try:
        from ergodic.cli import main as run
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        sys.exit(130)
    run()

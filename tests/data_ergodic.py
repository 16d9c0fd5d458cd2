"""Where tests find the data of the built-in posteriors: ERGODIC_DATA, or ``shared/data`` beside the repository."""

import os
from pathlib import Path

import pytest

BESIDE = Path(__file__).resolve().parent.parent.parent / "shared" / "data"


def data_folder():
    """The folder; the test is skipped, with the reason, only where there is none."""
    folder = os.environ.get("ERGODIC_DATA") or (str(BESIDE) if BESIDE.is_dir() else None)
    if folder is None:
        pytest.skip("the posteriors' data are not here: set ERGODIC_DATA to their folder")
    return folder

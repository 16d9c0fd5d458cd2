"""What tests of commands share."""

import pytest

from commands_ergodic import MODEL


@pytest.fixture
def model(tmp_path):
    (tmp_path / "neighbour.py").write_text("HALF = 0.5\n")
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path

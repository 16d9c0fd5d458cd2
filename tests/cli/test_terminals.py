"""The command in a process of its own: Ctrl-C while it is imported, terminals without Unicode, nobody who listens."""

import os
import subprocess
import sys

import jax
import numpy as np

import ergodic as eg

COMMAND = "from ergodic_command import main; main()"


def command(*words, stdout=subprocess.PIPE, **environment):
    """What became of the command."""
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *map(str, words)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
        timeout=120,
        check=False,
    )


def test_ctrl_c_while_it_is_imported_is_said_in_one_line(tmp_path):
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("raise KeyboardInterrupt")
    where = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = command("targets", PYTHONPATH=where)
    assert done.returncode == 130 and done.stderr == b"interrupted: nothing was written\n"


def test_an_ascii_terminal_and_a_reader_that_is_gone_change_nothing(tmp_path):
    """The summary has Greek letters in it; they used to be an error once the draws were saved."""
    sampler = eg.HEI(steps=2, leapfrogs=1).untuned(eg.targets.get("gaussian"), jax.random.key(0))
    sampler.source = {"builtin": "gaussian"}
    sampler.save(tmp_path / "g.ergodic")
    gone, nobody = os.pipe()
    os.close(gone)
    words = ("sample", tmp_path / "g.ergodic", "-n", 50, "-o", tmp_path / "d.npz")
    done = command(*words, stdout=nobody, PYTHONIOENCODING="ascii")
    os.close(nobody)
    assert done.returncode == 0 and b"error" not in done.stderr and b"?*" in done.stderr  # log π*, in a warning
    assert len(np.load(tmp_path / "d.npz")["unconstrained"]) == 50


def test_what_a_terminal_cannot_show_is_replaced():
    done = command("methods", PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and b"GEI" in done.stdout

"""Training: resumed runs are bit-identical, bad states are never kept, stages carry over, errors say what to do."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from safetensors.numpy import save

from ergodic.cli import main
from ergodic.generative import ErgodicEncoder, VAEEncoder
from ergodic.generative.training import read_mark, train
from ergodic.generative.training_settings import Budget, Recipe, Stage, parse_budget
from ergodic.runtime.errors import ConfigError, ErgodicError, StorageError
from ergodic.runtime.files import digest, read_arrays, write_arrays
from ergodic.runtime.programs import compiled

RECIPE = Recipe((Stage(VAEEncoder()), Stage(ErgodicEncoder(2, 1, start="encoder"))), batch=16)


@pytest.fixture(scope="module")
def grey():
    return np.random.default_rng(0).uniform(size=(40, 64)).astype(np.float32)


def cli(words):
    """The exit code of a command."""
    with pytest.raises(SystemExit) as stop:
        main(words)
    return stop.value.code


def weights(state):
    return [np.asarray(leaf) for leaf in jax.tree.leaves((state.decoder, state.parameters))]


class Killed(Exception):
    """What stands for a kill."""


def test_a_killed_run_ends_bit_identical(grey, tmp_path):
    """Stopped in the second stage, after the checkpoint of the first, and resumed."""
    key, budget = jax.random.key(0), Budget(epochs=8)
    whole = train(grey, RECIPE, budget, key, tmp_path / "whole", marks=(0.5, 1.0))

    def stop(row):
        if row["iteration"] >= 11:
            raise Killed

    with pytest.raises(Killed):
        train(grey, RECIPE, budget, key, tmp_path / "cut", marks=(0.5, 1.0), every=0, tell=stop)
    assert read_mark(tmp_path / "cut", "checkpoint", RECIPE, (40, 64)).state.iteration < 11
    resumed = train(grey, RECIPE, budget, key, tmp_path / "cut", marks=(0.5, 1.0))
    assert resumed.iterations == whole.iterations == 16
    for a, b in zip(weights(resumed), weights(whole), strict=True):
        assert np.array_equal(a, b)
    for mark in ("mark-0.5", "mark-1"):
        a, b = (read_mark(tmp_path / run, mark, RECIPE, (40, 64)) for run in ("whole", "cut"))
        assert all(np.array_equal(x, y) for x, y in zip(weights(a.state), weights(b.state), strict=True))


def test_an_interrupted_run_keeps_where_it_was(grey, tmp_path):
    """Ctrl-C between checkpoints loses nothing, and the run that goes on ends where a whole one ends."""
    key, budget = jax.random.key(0), Budget(epochs=8)

    def press(row):
        if row["iteration"] >= 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(grey, RECIPE, budget, key, tmp_path / "cut", tell=press)
    kept = read_mark(tmp_path / "cut", "checkpoint", RECIPE, (40, 64))
    assert kept.state.iteration >= 5 and kept.rows[-1]["iteration"] == kept.state.iteration
    resumed = train(grey, RECIPE, budget, key, tmp_path / "cut")
    whole = train(grey, RECIPE, budget, key, tmp_path / "whole")
    assert all(np.array_equal(a, b) for a, b in zip(weights(resumed), weights(whole), strict=True))


def test_ctrl_c_waits_for_the_compiler(ctrl_c):
    """It is raised when the program is there and kept; only the first trace presses, so none can reach the runner."""
    traced = []

    def press(x):
        traced.append(x.shape)
        if len(traced) == 1:
            signal.raise_signal(signal.SIGINT)
        return 2 * x

    with pytest.raises(KeyboardInterrupt):
        compiled(press, (), jax.numpy.ones(2))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert np.array_equal(compiled(press, (), jax.numpy.ones(2))(jax.numpy.ones(2)), [2, 2])
    assert len(traced) == 1


def judged(folder, capsys):
    """What `ergodic generative judge` says of a run, and of what is none."""
    assert not cli(["generative", "judge", str(folder), "--images", "4", "--temperatures", "20", "--simulated", "2"])
    said = capsys.readouterr().out
    assert "VAE on digits" in said and "log p(y)   -" in said and "sandwich" in said
    assert cli(["generative", "judge", str(folder.parent)]) == 1
    assert "ergodic generative train --out" in capsys.readouterr().err


def test_the_command_line_trains_and_judges(tmp_path, capsys):
    assert not cli(["generative", "train", "--method", "VAE", "--budget", "1", "--out", str(tmp_path / "run")])
    capsys.readouterr()
    state = read_mark(tmp_path / "run", "checkpoint", Recipe((Stage(VAEEncoder()),)), (1297, 64)).state
    assert int(state.iteration) == 10
    judged(tmp_path / "run", capsys)


@pytest.mark.slow
def test_a_process_killed_at_a_random_moment(tmp_path, capsys):
    """kill -9 of `ergodic generative train`, then the same command again: the checkpoint is that of a whole run."""
    words = ["-c", "from ergodic.cli import main; main()", "generative", "train", "--method", "VAE", "--every", "0.05"]
    words += ["--budget", "1000", "--out"]
    environment = {**os.environ, "XLA_FLAGS": ""}

    def run(folder, **more):
        return subprocess.Popen([sys.executable, "-W", "ignore", *words, str(folder)], env=environment, **more)

    whole = run(tmp_path / "whole", stdout=subprocess.DEVNULL)
    cut = run(tmp_path / "cut", stdout=subprocess.DEVNULL)
    time.sleep(np.random.default_rng().uniform(5, 12))
    cut.send_signal(signal.SIGKILL)
    cut.wait()
    assert whole.wait(300) == 0
    assert run(tmp_path / "cut", stdout=subprocess.DEVNULL).wait(300) == 0
    recipe = Recipe((Stage(VAEEncoder()),))
    a, b = (read_mark(tmp_path / name, "checkpoint", recipe, (1297, 64)).state for name in ("whole", "cut"))
    assert int(a.iteration) == int(b.iteration) == 10_000
    assert all(np.array_equal(x, y) for x, y in zip(weights(a), weights(b), strict=True))
    judged(tmp_path / "cut", capsys)


def test_the_state_does_not_depend_on_how_calls_are_cut(grey, tmp_path):
    marks = tuple(k / 7 for k in range(1, 8))
    a = train(grey, RECIPE, Budget(epochs=7), jax.random.key(1), tmp_path / "a", marks=marks)
    b = train(grey, RECIPE, Budget(epochs=7), jax.random.key(1), tmp_path / "b")
    assert all(
        np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a.decoder), jax.tree.leaves(b.decoder), strict=True)
    )


def test_seconds_are_a_budget_too(grey, tmp_path):
    told = []
    trained = train(grey, RECIPE, Budget(seconds=0.2), jax.random.key(0), tmp_path, tell=told.append)
    assert trained.seconds >= 0.2 and trained.iterations > 2
    assert trained.history["stage"][0] == 0 and trained.history["stage"][-1] == 1
    assert {"objective", "rate", "left", "seconds", "iteration"} <= set(told[-1])
    assert np.all(np.diff(trained.history["seconds"]) > 0)


def test_training_learns(grey, tmp_path):
    """The bound rises on images that are all alike (it goes from -64 log 2 toward 0)."""
    same = np.tile(np.round(grey[:1]), (32, 1))
    trained = train(same, Recipe((Stage(VAEEncoder()),), batch=16), Budget(epochs=150), jax.random.key(0), tmp_path)
    assert trained.history["objective"][0] < -30 and trained.history["objective"][-1] > -5


def test_a_run_that_diverges_stops_and_keeps_the_last_good_checkpoint(grey, tmp_path):
    recipe = Recipe((Stage(VAEEncoder()),), batch=16, learning_rate=1e30)
    with pytest.raises(ErgodicError, match=r"diverged.*not finite.*smaller learning rate"):
        train(grey, recipe, Budget(epochs=50), jax.random.key(0), tmp_path, every=0)
    kept = read_mark(tmp_path, "checkpoint", recipe, (40, 64))
    assert all(np.all(np.isfinite(leaf)) for leaf in weights(kept.state))


def test_checkpoints_of_other_settings_or_damaged_are_refused(grey, tmp_path):
    train(grey, RECIPE, Budget(epochs=1), jax.random.key(0), tmp_path)
    other = Recipe(RECIPE.stages, batch=8)
    with pytest.raises(StorageError, match="other settings"):
        train(grey, other, Budget(epochs=1), jax.random.key(0), tmp_path)
    file = tmp_path / "checkpoint"
    good = file.read_bytes()
    file.write_bytes(good[:-100] + bytes([good[-100] ^ 1]) + good[-99:])
    with pytest.raises(StorageError, match="does not have the checksum it was written with; delete"):
        train(grey, RECIPE, Budget(epochs=1), jax.random.key(0), tmp_path)
    file.write_bytes(good[:-100])
    with pytest.raises(StorageError, match="damaged"):
        train(grey, RECIPE, Budget(epochs=1), jax.random.key(0), tmp_path)
    with pytest.raises(ConfigError, match="train first"):
        read_mark(tmp_path / "nowhere", "checkpoint", RECIPE, (40, 64))


def test_checkpoints_of_earlier_versions_are_read(grey, tmp_path):
    """There Adam's arrays are called ``adam/0/...``, and the digest, of the arrays, is in the header."""
    train(grey, RECIPE, Budget(epochs=4), jax.random.key(0), tmp_path)
    file = tmp_path / "checkpoint"
    now = read_mark(tmp_path, "checkpoint", RECIPE, (40, 64))
    metadata, arrays = read_arrays(file, "a checkpoint")
    header = json.loads(metadata["training"])
    earlier = {re.sub("^adam/", "adam/0/", name): array for name, array in arrays.items()}
    assert "adam/0/count" in earlier
    file.write_bytes(save(earlier, metadata={"training": json.dumps(header)}))
    with pytest.raises(StorageError, match="does not have the checksum"):
        read_mark(tmp_path, "checkpoint", RECIPE, (40, 64))
    file.write_bytes(save(earlier, metadata={"training": json.dumps({**header, "sha256": digest(earlier)})}))
    then = read_mark(tmp_path, "checkpoint", RECIPE, (40, 64))
    assert then.stage == now.stage == 1 and then.rows == now.rows
    for a, b in zip(jax.tree.leaves(then.state), jax.tree.leaves(now.state), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("wrong", [{"stage": 7}, {"stage": "0"}, {"seconds": None}, {"rows": [[1]]}, {"rows": 3}])
def test_a_checkpoint_with_a_crafted_header_is_refused(grey, tmp_path, wrong):
    """Its checksum is right, what it says is not."""
    train(grey, RECIPE, Budget(epochs=1), jax.random.key(0), tmp_path)
    metadata, arrays = read_arrays(tmp_path / "checkpoint", "a checkpoint")
    write_arrays(tmp_path / "checkpoint", "training", json.loads(metadata["training"]) | wrong, arrays)
    with pytest.raises(StorageError, match="no stage, seconds and rows"):
        read_mark(tmp_path, "checkpoint", RECIPE, (40, 64))


def test_bad_settings(grey, tmp_path):
    with pytest.raises(ConfigError, match="a batch of 100 needs as many images"):
        train(grey, Recipe((Stage(VAEEncoder()),), batch=100), Budget(epochs=1), jax.random.key(0), tmp_path)
    with pytest.raises(ConfigError, match="epochs or in seconds"):
        Budget()
    with pytest.raises(ConfigError, match="at least one stage"):
        Recipe(())
    with pytest.raises(ConfigError, match="30m"):
        parse_budget("soon")
    assert parse_budget("1.5h").seconds == 5400 and parse_budget("20").epochs == 20
    assert parse_budget("30m").seconds == 1800 and json.dumps(RECIPE.describe())

"""A user's own table: reading it, fitting networks, predicting, and what is said when something is wrong."""

import csv

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save

import ergodic as eg
from ergodic.bnn.csv_table import new_rows, read_csv, training_rows
from ergodic.bnn.fitted import load, target_in
from ergodic.bnn.network import Data, RegressionNetwork
from ergodic.cli import main
from ergodic.runtime.errors import DataError
from ergodic_studies.paper.network_splits import Splits
from ergodic_studies.posteriors.uci_tables import load_table


def cli(words):
    """The exit code of a command."""
    with pytest.raises(SystemExit) as stop:
        main(words)
    return stop.value.code


def write(path, header, rows):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(30, 2))
    y = 10 + 3 * x[:, 0] + 0.2 * rng.normal(size=30)
    rows = np.column_stack([x[:, 0], y, x[:, 1]])
    return write(tmp_path_factory.mktemp("own") / "data.csv", ["a", "y", "b"], rows.tolist())


def test_fit_and_predict(table, tmp_path, capsys):
    model, out = tmp_path / "model.ergodic", tmp_path / "predictions.csv"
    small = ["--hidden", "4", "--hidden", "3", "--networks", "20", "--effort", "0.05"]
    assert not cli(["bnn", "fit", str(table), "--target", "y", "-o", str(model), *small])
    assert "20 networks of 4 and 3 units given 30 rows of 2 columns" in capsys.readouterr().out
    assert len(np.unique(load(model).positions, axis=0)) == 20  # drawn in parts, each its own
    assert load(model).network.hidden == (4, 3)
    new = write(tmp_path / "new.csv", ["b", "a"], [[0.0, -1.0], [0.0, 1.0]])
    assert not cli(["bnn", "predict", str(model), str(new), "-o", str(out)])
    with out.open() as file:
        first, second = csv.DictReader(file)
    assert float(first["mean"]) < float(second["mean"])
    assert float(first["q05"]) < float(first["q50"]) < float(first["q95"]) and float(first["sd"]) > 0
    assert list(first) == ["mean", "sd", "q05", "q25", "q50", "q75", "q95"]
    assert cli(["bnn", "predict", str(table), str(new)]) == 1
    assert "is not a network's file" in capsys.readouterr().err
    blank = write(tmp_path / "blank.csv", ["a", "b", "y"], [[-1.0, 0.0, ""]])
    assert not cli(["bnn", "predict", str(model), str(blank), "-o", str(out)])
    with out.open() as file:
        alone = next(csv.DictReader(file))  # of one row, so rounded otherwise
    assert list(alone) == list(first)
    assert [float(v) for v in alone.values()] == pytest.approx([float(v) for v in first.values()], rel=1e-5)
    capsys.readouterr()
    for words in (
        ["predict", str(model), str(new), "-o", str(new)],
        ["predict", str(model), str(new), "-o", str(model)],
    ):
        assert cli(["bnn", *words]) == 1 and "would be written over" in capsys.readouterr().err
    damaged = bytearray(model.read_bytes())
    damaged[-40] ^= 255
    (tmp_path / "damaged.ergodic").write_bytes(damaged)
    assert cli(["bnn", "predict", str(tmp_path / "damaged.ergodic"), str(new)]) == 1
    assert "is damaged" in capsys.readouterr().err


def test_the_file_is_a_sampler(table, tmp_path, capsys):
    """`ergodic sample` and `ergodic certify` find the posterior in the file; networks for predicting stay in it."""
    model, draws = tmp_path / "model.ergodic", tmp_path / "more.npz"
    small = ["--hidden", "3", "--networks", "12", "--effort", "0.01"]
    assert not cli(["bnn", "fit", str(table), "--target", "y", "-o", str(model), *small])
    before = load(model)
    assert not cli(["sample", str(model), "-n", "10", "-o", str(draws)])
    assert "10 independent draws of 'network'" in capsys.readouterr().out
    with np.load(draws) as more:
        assert more["position/weights_1"].shape == (10, 2, 3) and np.all(more["position/noise"] > 0)
    assert cli(["certify", str(model), "-n", "200"]) in (0, 3, 4)  # a verdict, whichever: the chain is very short
    assert f"kept in {model}" in capsys.readouterr().out
    after = load(model)
    assert np.array_equal(before.positions, after.positions) and after.features == ["a", "b"]
    assert np.array_equal(before.scaling.x_mean, after.scaling.x_mean) and after.target == "y"
    sampler = eg.load(model, target_in(model))
    assert sampler.certificate is not None and sampler.method.name == "LongChain"


@pytest.mark.parametrize(
    "change",
    [
        {"hidden": [10**9]},
        {"hidden": [3, 3]},
        {"hidden": [-1]},
        {"hidden": ["3"]},
        {"hidden": []},
        {"features": ["a", "b", "c"]},
        {"features": "ab"},
        {"features": []},
        {"target": 3},
        {"wings": 2},
    ],
)
def test_a_network_that_does_not_fit_its_file_is_refused_before_it_is_made(tmp_path, change):
    """A billion hidden units used to be made first, 12 GB of them. The checksum is right, what it is of is not."""
    path = tmp_path / "network.ergodic"
    rng = np.random.default_rng(0)
    sampler = eg.HEI(steps=1, leapfrogs=1).untuned(RegressionNetwork(2, (3,)).target(_data(rng)), jax.random.key(0))
    sampler.source = {"network": {"features": ["a", "b"], "target": "y", "hidden": [3]}}
    networks = np.zeros((4, sampler.target.dim), np.float32)
    sampler.extra = {"x": rng.normal(size=(20, 2)), "y": rng.normal(size=20), "networks": networks}
    sampler.save(path)
    assert load(path).network.dim == sampler.target.dim
    sampler.source = {"network": sampler.source["network"] | change}
    sampler.save(path)
    for read in (load, target_in):
        with pytest.raises(eg.StorageError, match="is damaged"):
            read(path)


def _data(rng):
    return Data(jnp.asarray(rng.normal(size=(20, 2)), jnp.float32), jnp.asarray(rng.normal(size=20), jnp.float32))


def test_many_columns_are_read_at_once(tmp_path):
    """A hundred thousand names used to be compared with each other, for a minute."""
    names = [f"x{i}" for i in range(100_000)]
    path = tmp_path / "wide.csv"
    path.write_text(",".join(names) + "\n" + ",".join(["1"] * len(names)) + "\n")
    assert new_rows(path, names[::-1], "y").shape == (1, len(names))
    with pytest.raises(DataError, match="'x5' and 99994 more"):
        new_rows(path, names[:1], "y")


def test_files_of_other_kinds(table, tmp_path, capsys):
    """Files of an earlier `ergodic bnn fit`, and samplers of something else, are refused in one line."""
    old, other = tmp_path / "old.ergodic", tmp_path / "other.ergodic"
    old.write_bytes(save({"positions": np.zeros((2, 3), np.float32)}, metadata={"ergodic-network": "{}"}))
    assert cli(["bnn", "predict", str(old), str(table)]) == 1
    assert "earlier version" in (said := capsys.readouterr().err) and "fit again" in said and said.count("\n") == 1
    eg.HEI(steps=1, leapfrogs=1).untuned(eg.targets.get("gaussian"), jax.random.key(0)).save(other)
    assert cli(["bnn", "predict", str(other), str(table)]) == 1
    assert "is not a network's file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("1,2\n3,4\n", "no header"),
        ("a,a\n1,2\n", "two columns called 'a'"),
        (",a,y\n0,1,2\n", "column 1 has no name"),
        ("a;y\n1;2\n", "separated by commas"),
        ("a,y\n1\n", "line 2: 1 values for 2 columns"),
        ("a,y\n1,2\n,3\n", r"line 3, column 'a': a value is missing"),
        ("a,y\n1,2\nred,3\n", r"line 3, column 'a': 'red' is not a number.*encode"),
        ("a,y\n1,inf\n", "not finite"),
    ],
)
def test_bad_files(tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_csv(path)


def test_bad_tables(table, tmp_path):
    with pytest.raises(DataError, match="there is no such file"):
        read_csv(tmp_path / "nowhere.csv")
    with pytest.raises(DataError, match="no column 'z'; its columns are a, y, b"):
        training_rows(table, "z")
    flat = write(tmp_path / "flat.csv", ["a", "y"], [[1, k] for k in range(12)])
    with pytest.raises(DataError, match="column 'a' is 1 in every row"):
        training_rows(flat, "y")
    few = write(tmp_path / "few.csv", ["a", "y"], [[k, k] for k in range(3)])
    with pytest.raises(DataError, match="3 rows; at least 10"):
        training_rows(few, "y")
    alone = write(tmp_path / "alone.csv", ["y"], [[k] for k in range(12)])
    with pytest.raises(DataError, match="no column beside 'y'"):
        training_rows(alone, "y")


def test_new_rows_must_have_the_known_columns(table, tmp_path):
    with pytest.raises(DataError, match="lacks columns 'c', 'd'"):
        new_rows(table, ["a", "b", "c", "d"], "y")
    with pytest.raises(DataError, match="has column 'b', which the network has never seen"):
        new_rows(table, ["a"], "y")
    assert new_rows(table, ["b", "a"], "y").shape == (30, 2)


def test_all_splits_as_one_batch():
    table = load_table("diabetes")
    splits = Splits.of(table, (0, 3))
    assert splits.data.x.shape == (2, len(table.train_index[0]), 10)
    assert np.allclose(np.asarray(splits.data.y).mean(axis=1), 0, atol=1e-5)
    held = Splits.of(table, (0, 3), validation=True)
    train = {tuple(row) for row in table.split(0).train_x}
    assert all(tuple(row) in train for row in held.rows[0].test_x)
    assert len(held.rows[0].test_y) + held.data.x.shape[1] == splits.data.x.shape[1]
    network = splits.network((3,))
    scores = splits.scores(network, np.zeros((2, 4, network.dim)))
    # Networks of zeros with noise 1 predict the training rows' mean and spread.
    sd, mean = table.split(0).train_y.std(), table.split(0).train_y.mean()
    expected = np.mean(-0.5 * ((table.split(0).test_y - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi))
    assert np.isclose(scores[0]["log_likelihood"], expected, rtol=1e-5)

"""The command line, run in this process through its real entry point."""

import functools
import json

import numpy as np
import pytest

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


@pytest.fixture
def model(tmp_path):
    (tmp_path / "neighbour.py").write_text("HALF = 0.5\n")
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path


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
    code, _, err = run(capsys, *words)
    assert code == 1
    assert err.startswith("error: ") and err.count("\n") == 1 and "Traceback" not in err
    return err


def test_targets_and_methods_list_what_is_there(capsys):
    code, out, _ = run(capsys, "targets")
    assert code == 0 and "dual-moon" in out and "3.3863" in out
    code, out, _ = run(capsys, "methods")
    assert code == 0 and "HEI" in out and "leapfrogs = 5" in out


def test_check_ticks_a_good_target(capsys, model):
    for name in ("gaussian", model, f"{model}:target"):
        code, out, _ = run(capsys, "check", name)
        assert code == 0 and out.count("✓") == 4 and "✗" not in out
    code, out, _ = run(capsys, "check", f"{model}:logdensity", "--dim", "2")
    assert code == 0 and "dimension 2" in out


def test_check_judges_from_where_fit_starts(capsys, tmp_path):
    path = tmp_path / "odd.py"
    path.write_text(
        "import jax.numpy as jnp\nimport ergodic as eg\nfrom ergodic.initial import diagonal\n"
        "def narrow(x):\n    return jnp.where(jnp.all(jnp.abs(x) < 0.5), -jnp.sum(x**2), -jnp.inf)\n"
        "def far(x):\n    return -0.5 * jnp.sum(x**2) + jnp.where(jnp.all(x > 50), 0.0, -jnp.inf)\n"
        "def singular(x):\n    return -jnp.sum(jnp.log(jnp.where(jnp.abs(x) > 1, jnp.abs(x), 0.0)))\n"
        "narrow = eg.Target(narrow, like=jnp.zeros(20))\n"
        "nowhere = eg.Target(far, like=jnp.zeros(2))\n"
        "prior = eg.Target(far, like=jnp.zeros(2), prior=diagonal(100.0, 1.0, 2, jnp.float32))\n"
        "singular = eg.Target(singular, like=jnp.zeros(2))\n"
    )
    code, out, err = run(capsys, "check", f"{path}:narrow")  # the paper's P0 never finds it; fit's narrow start does
    assert code == 0, err
    assert "N(0, 0.1²), where fit starts; it skips N(0, 1²)" in out
    code, out, _ = run(capsys, "check", f"{path}:prior")
    assert code == 0 and "draws of the prior, where fit starts; it skips N(0, 1²) and N(0, 0.1²)" in out
    code, out, err = run(capsys, "check", f"{path}:nowhere")
    assert code == 1 and "✗ finite values" in out and "not usable" in err
    code, out, err = run(capsys, "check", f"{path}:singular")  # the widest start that is not skipped decides
    assert code == 1 and "+inf" in out and "N(0, 1²)" in out


def test_check_explains_a_bad_one(capsys, model):
    code, out, err = run(capsys, "check", f"{model}:vector", "--dim", "2")
    assert code == 1 and "✗ structure" in out and "did you forget jnp.sum" in out
    assert err.startswith("error: ") and "not usable" in err


def test_fit_and_sample_a_users_model(capsys, model, tmp_path):
    file, nc = tmp_path / "m.ergodic", tmp_path / "d.nc"
    code, out, _ = run(
        capsys,
        "fit",
        model,
        "-o",
        file,
        "--method",
        "HEI",
        "--set",
        "iterations=5",
        "-s",
        "steps=3",
        "-s",
        "adjusted=false",
    )
    assert code == 0 and "saved" in out and "over 5 iterations" in out
    code, out, _ = run(capsys, "sample", file, "-n", "1_000", "-o", nc)
    assert code == 0 and "1,000 independent draws of 'mine'" in out and "E[log π*]" in out
    assert "the Monte Carlo error of a mean is sd/√n exactly" in out and "not certified; run ergodic certify" in out
    import arviz

    data = arviz.from_netcdf(str(nc))
    assert data.posterior["x"].shape == (1, 1000, 3)
    assert data.posterior.attrs["steps"] == 3

    code, _, _ = run(capsys, "sample", file, "-n", 100, "-o", tmp_path / "a.npz", "--seed", 7)
    code, _, _ = run(capsys, "sample", file, "-n", 100, "-o", tmp_path / "b.npz", "--seed", 7)
    one, two = (np.load(tmp_path / f"{name}.npz")["unconstrained"] for name in "ab")
    np.testing.assert_array_equal(one, two)

    model.write_text(MODEL + "\n# changed\n")
    code, _, err = run(capsys, "sample", file, "-n", 10)
    assert code == 0 and "has changed since" in err and file.with_suffix(".nc").exists()
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    file, model = file.rename(moved / file.name), model.rename(moved / model.name)  # found beside the sampler's file
    assert run(capsys, "sample", file, "-n", 10)[0] == 0
    model.unlink()
    assert "is gone" in fails(capsys, "sample", file, "-n", 10)


def test_weighted_and_correlated_draws_say_what_they_are_worth(capsys, tmp_path):
    settings = ("-s", "temperatures=20", "-s", "pilots=2", "-s", "initial_scale=3")
    run(capsys, "fit", "gaussian", "--method", "hais", *settings, "-o", tmp_path / "h")
    _, out, _ = run(capsys, "sample", tmp_path / "h", "-n", 200, "-o", tmp_path / "h.nc")
    assert "200 weighted draws" in out and "log Z" in out and "independent draws" in out
    run(capsys, "fit", "gaussian", "--method", "SGHMC", "-s", "burn_in=10", "-s", "thin=1", "-o", tmp_path / "s")
    for name in ("s.npz", "s.zarr"):
        _, out, _ = run(capsys, "sample", tmp_path / "s", "-n", 500, "-o", tmp_path / name)
        assert "500 correlated draws" in out and "worth" in out and "log Z" not in out
        assert ("made in memory" in out) == (name == "s.zarr")
    assert "--overwrite" in fails(capsys, "sample", tmp_path / "s", "-n", 500, "-o", tmp_path / "s.zarr")


def test_zarr_is_streamed_and_gone_on_with(capsys, gaussian_sampler, tmp_path, monkeypatch):
    from dataclasses import replace

    from ergodic.adapters import streaming

    monkeypatch.setattr(streaming, "default_chunk", lambda dim: 100)
    monkeypatch.setattr(streaming, "_ROWS", 200)
    file, store = tmp_path / "g.ergodic", tmp_path / "d.zarr"
    replace(gaussian_sampler, source={"builtin": "gaussian"}).save(file)
    command = ("sample", file, "-o", store, "-n")
    code, out, _ = run(capsys, *command, "5_00")
    assert code == 0 and "500 independent draws of 'gaussian' in" in out and "of 200 of the new draws" in out
    table = out.splitlines()[1:6]
    assert [line.split()[0] for line in table] == ["mean", "x1", "x2", "log", "500"]
    code, out, _ = run(capsys, *command, "500")
    assert code == 0 and "is complete" in out and out.splitlines()[1:6] == table
    code, out, _ = run(capsys, *command, "600")
    assert code == 0 and "500 were there already, 100 more" in out
    assert "600 draws already" in fails(capsys, *command, "10")
    assert "seed 1 (here 2)" in fails(capsys, *command, "700", "--seed", "2")
    code, out, _ = run(capsys, *command, "10", "--seed", "2", "--overwrite")
    assert code == 0 and "10 independent draws" in out

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("ergodic.adapters.zarr_store.Store.grow", interrupted)
    code, _, err = run(capsys, *command, "300", "--seed", "2")
    assert code == 130 and "holds the first 10 draws; the same command goes on from there" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fit", "dual-mon", "-o", "x"), "did you mean 'dual-moon'"),
        (("fit", "gaussian", "-o", "x", "--set", "steps=0"), "steps must be at least 1"),
        (("fit", "gaussian", "-o", "x", "--set", "wings=2"), "use name=value with one of"),
        (("fit", "gaussian", "-o", "x", "--method", "HEY"), "did you mean 'HEI'"),
        (("fit", "nothing.py:target", "-o", "x"), "no such file"),
        (("fit", "MODEL:number", "-o", "x"), "is a int; it must be"),
        (("fit", "MODEL:absent", "-o", "x"), "has no 'absent' (it has: logdensity, vector, target)"),
        (("fit", "MODEL:logdensity", "-o", "x"), "--dim N"),
        (("sample", "absent.ergodic", "-n", "10"), "no such file"),
        (("sample", "MODEL", "-n", "10"), "not a sampler's file"),
        (("sample", "MODEL", "-n", "0"), "at least 1"),
        (("sample", "MODEL", "-n", "10", "-o", "draws.csv"), ".nc, .zarr or .npz"),
        (("sample", "MODEL", "-n", "10", "-o", "MODEL/draws.zarr"), "cannot be written"),
        (("demo", "-n", "0"), "draws must be at least 1"),
        (("fit", "gaussian", "-o", "MODEL/x.ergodic"), "cannot be written"),
        (("fit", "gaussian", "-o", "."), "is a directory"),
        (("fit", "gaussian", "-o", "x", "--dim", "3"), "--dim is for plain functions"),
        (("fit", "gaussian", "-o", "x", "--method", "HEI", "--set", "adjusted=no"), "adjusted must be true or false"),
        (("fit", "gaussian", "-o", "x", "--method", "HEI", "--set", "adam=1"), "adam must be 3 numbers"),
        (("fit", "gaussian", "-o", "x", "--seed", "-1"), "--seed must be between"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else "",
)
def test_mistakes_are_one_clear_line(capsys, model, words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in fails(capsys, *(word.replace("MODEL", str(model)) for word in words))


def test_a_model_that_does_not_import_is_named(capsys, tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("import does_not_exist\n")
    assert "ModuleNotFoundError" in fails(capsys, "check", f"{broken}:target")


def test_a_model_may_hold_dataclasses_and_leave(capsys, tmp_path):
    path = tmp_path / "odd.py"
    path.write_text(
        "from __future__ import annotations\nimport dataclasses, sys\nimport jax.numpy as jnp\nimport ergodic as eg\n"
        "@dataclasses.dataclass\nclass Data:\n    x: int = 1\n"
        "target = eg.Target(lambda x: -jnp.sum(x**2), like=jnp.zeros(Data().x))\n"
    )
    assert run(capsys, "check", path)[0] == 0
    path.write_text("import sys\nsys.exit(3)\n")
    assert "SystemExit" in fails(capsys, "check", path)
    path.write_text("import jax.numpy as jnp, ergodic as eg\ntarget = eg.Target(lambda x: x, like=jnp.zeros(2))\n")
    code, out, _ = run(capsys, "check", path)
    assert code == 1 and "✗ structure" in out and "jnp.sum" in out


@pytest.mark.parametrize(
    "words", [("sample", "x", "-n", "many"), ("fit", "gaussian"), ("dmo",), ("demo", "--wings")], ids=str
)
def test_usage_errors_are_one_line_too(capsys, words):
    code, _, err = run(capsys, *words)
    assert code == 2 and err.startswith("error: ") and err.count("\n") == 1


def test_ctrl_c_is_said(capsys, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("ergodic.cli.checking.judged_starts", interrupted)
    code, _, err = run(capsys, "check", "gaussian")
    assert code == 130 and "interrupted" in err


def test_debug_shows_the_traceback(model):
    with pytest.raises(ValueError, match="did you mean"):
        main(["--debug", "check", "gausian"])


@pytest.mark.parametrize("letters", ["d", pytest.param("abcdef", marks=pytest.mark.slow)])
def test_demo_prints_its_table_and_writes_results(capsys, tmp_path, monkeypatch, letters):
    from ergodic.cli import demo
    from ergodic.targets.synthetic import PAPER_SIX, SYNTHETIC

    names = tuple(name for name in PAPER_SIX if SYNTHETIC[name].letter in letters)
    monkeypatch.setattr(demo, "measure", functools.partial(demo.measure, names=names))
    seen = []

    def illustrate(out, runs, seed):
        seen.extend(run.row.target for run in runs)
        return {"figure": out / "figure.png"}

    for illustrators, words in (([], "come with a checkout"), ([illustrate], "figure.png")):
        monkeypatch.setattr(demo, "ILLUSTRATORS", illustrators)
        code, out, error = run(capsys, "demo", "-n", 2000, "--out", tmp_path)
        assert code == 0, error
        assert names[0] in out and "draws/s" in out and "certificate" in out and words in out
    results = json.loads((tmp_path / "results.json").read_text())
    assert [row["letter"] for row in results["results"]] == list(letters)
    assert results["config"]["draws"] == 2000 and results["versions"]["jax"]
    assert seen == list(names)

"""The commands `ergodic fit` and `ergodic sample`."""

import numpy as np

from commands_ergodic import MODEL, fails, run


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
    assert "has changed since" in fails(capsys, "sample", file, "-n", 10)
    assert run(capsys, "sample", file, "-n", 10, "--model", model)[0] == 0 and file.with_suffix(".nc").exists()
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (moved / "neighbour.py").write_text("HALF = 0.5\n")
    model = model.rename(moved / model.name)
    assert "is gone" in fails(capsys, "sample", file, "-n", 10)
    assert run(capsys, "sample", file, "-n", 10, "--model", model)[0] == 0


def test_a_certificate_is_not_said_of_a_model_that_was_edited(capsys, model, tmp_path):
    """Not even where the density is the same at the points that the file has."""
    file = tmp_path / "m.ergodic"
    settings = ("--method", "HEI", "-s", "iterations=5", "-s", "steps=3")
    run(capsys, "fit", model, "-o", file, *settings)
    assert run(capsys, "certify", file, "-n", 1_000)[0] in (0, 3, 4)
    words = ("sample", file, "-n", 10, "-o", tmp_path / "d.npz")
    code, out, err = run(capsys, *words)
    assert code == 0 and "certificate: not certified" not in out and "certificate: " in out
    model.write_text(MODEL.replace("return -neighbour", "return jnp.minimum(x[0], 1e3) * 0 - neighbour"))
    code, out, err = run(capsys, *words, "--model", model)
    assert code == 0 and "has no certificate for" in err and "not certified" in out
    model.write_text(MODEL.replace("x - 1.0", "x - 2.0"))
    code, out, err = run(capsys, *words, "--model", model)
    assert code == 0 and "made for another log-density" in err and "not certified" in out


def test_weighted_and_correlated_draws_say_what_they_are_worth(capsys, tmp_path):
    settings = ("-s", "temperatures=20", "-s", "pilots=2", "-s", "initial_scale=3")
    run(capsys, "fit", "gaussian", "--method", "hais", *settings, "-o", tmp_path / "h")
    _, out, _ = run(capsys, "sample", tmp_path / "h", "-n", 200, "-o", tmp_path / "h.nc")
    assert "200 resampled draws" in out and "log Z" not in out and "independent draws" in out
    for name in ("w.nc", "w.zarr"):
        _, out, _ = run(capsys, "sample", tmp_path / "h", "-n", 200, "--weighted", "-o", tmp_path / name)
        assert "200 weighted draws" in out and "log Z" in out and "independent draws" in out
    run(capsys, "fit", "gaussian", "--method", "SGHMC", "-s", "burn_in=10", "-s", "thin=1", "-o", tmp_path / "s")
    for name in ("s.npz", "s.zarr"):
        _, out, _ = run(capsys, "sample", tmp_path / "s", "-n", 500, "-o", tmp_path / name)
        assert "500 correlated draws" in out and "worth" in out and "log Z" not in out
        assert ("made in memory" in out) == (name == "s.zarr")
    assert "--overwrite" in fails(capsys, "sample", tmp_path / "s", "-n", 500, "-o", tmp_path / "s.zarr")
    assert "no weights here" in fails(capsys, "sample", tmp_path / "s", "--weighted", "-o", tmp_path / "w.nc")


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
    assert run(capsys, "verify", store)[1] == f"{store} is sound: 600 draws, and no file is damaged\n"
    (store / "posterior" / "x" / "0.1.0").write_bytes(b"")
    assert "x/0.1.0: does not have its checksum" in fails(capsys, "verify", store)
    code, out, _ = run(capsys, "verify", store, "--sampler", file)
    assert code == 0 and "x/0.1.0" in out and "it was drawn again" in out and "is sound" in out
    (store / "posterior" / "x" / "0.1.0").unlink()
    code, out, err = run(capsys, *command, "600")
    assert code == 0 and "x/0.1.0: is missing; it was drawn again" in err and out.splitlines()[2:4] != []
    assert "seed 1 (here 2)" in fails(capsys, *command, "700", "--seed", "2")
    code, out, _ = run(capsys, *command, "10", "--seed", "2", "--overwrite")
    assert code == 0 and "10 independent draws" in out

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("ergodic.adapters.zarr_store.Store.grow", interrupted)
    code, _, err = run(capsys, *command, "300", "--seed", "2")
    assert code == 130 and "holds the first 10 draws; the same command goes on from there" in err


def test_several_processes_fill_one_store(capsys, gaussian_sampler, tmp_path, monkeypatch):
    """Who is done before the others says so; the last one describes the draws."""
    from dataclasses import replace

    from ergodic.adapters import streaming

    monkeypatch.setattr(streaming, "_ROWS", 2048)
    file, store = tmp_path / "g.ergodic", tmp_path / "d.zarr"
    replace(gaussian_sampler, source={"builtin": "gaussian"}).save(file)
    command = ("sample", file, "-n", 5_000, "-o", store, "--processes", 2, "--process")
    code, out, _ = run(capsys, *command, 0)
    assert code == 0 and "process 0 of 2 has made its part" in out and "holds the first 2,048 of 5,000 draws" in out
    code, out, _ = run(capsys, *command, 1)
    assert code == 0 and "2,048 were there already, 2,952 more, by process 1 of 2 and the others" in out
    assert "E[log π*]" in out and "saved" in out
    assert "belong together" in fails(capsys, "sample", file, "-o", store, "--processes", 2)
    assert "fill a .zarr store" in fails(capsys, "sample", file, "-o", tmp_path / "d.npz", *command[-3:], 1)

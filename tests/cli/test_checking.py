"""The command `ergodic check`."""

from commands_ergodic import fails, run


def test_check_ticks_a_good_target(capsys, model):
    for name in ("gaussian", model, f"{model}:target"):
        code, out, _ = run(capsys, "check", name)
        assert code == 0 and out.count("✓") == 5 and "✗" not in out
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

"""The command line's entry point: errors in one line, exit codes."""

import pytest

from commands_ergodic import fails, run
from ergodic.cli import main


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

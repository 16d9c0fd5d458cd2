"""What works with the core alone, and what says what to install, in a process that cannot import anything else.

A virtual environment with the core alone takes minutes to make; hiding every package that is not of the core from the
imports of one process takes seconds, and shows the same.
"""

import os
import subprocess
import sys
import textwrap

import pytest

from ergodic.runtime.extras import EXTRA_OF, OF_STUDIES

HIDE = """
import importlib.metadata, sys

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden}:
            raise ModuleNotFoundError(f"No module named '{{name}}'", name=name)

sys.meta_path.insert(0, Hide())

def says(*words, act):
    try:
        act()
    except Exception as error:
        text = str(error)
        assert "\\n" not in text and all(word in text for word in words), text
    else:
        raise AssertionError(f"nothing was said of {{words}}")

def command(*words):
    from ergodic.cli import main
    try:
        main([str(word) for word in words])
    except SystemExit as stop:
        return stop.code
"""
WITHOUT_STUDIES = """
found = importlib.metadata.entry_points
ours = lambda which: which.get("group", "").startswith("ergodic.")
importlib.metadata.entry_points = lambda **which: () if ours(which) else found(**which)
"""


def in_core(program, folder, hidden=(*EXTRA_OF, *OF_STUDIES, "ergodic_studies")):
    """Run a program where some packages cannot be imported; what it printed on stdout and on stderr."""
    text = HIDE.format(hidden=set(hidden)) + (WITHOUT_STUDIES if "ergodic_studies" in hidden else "")
    done = subprocess.run(
        [sys.executable, "-c", text + textwrap.dedent(program)],
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_the_library_works_and_says_what_else_there_is(tmp_path):
    out, _ = in_core(
        """
        import jax, jax.numpy as jnp, numpy as np, ergodic as eg

        target = eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(2), name="bell")
        sampler = eg.fit(target, jax.random.key(0))
        assert sampler.certificate.passed
        draws = sampler.sample(jax.random.key(1), 2000)
        assert draws.kind == "independent" and abs(draws.position.mean()) < 0.15
        print(draws.summary())
        print(sampler.certify(jax.random.key(2), draws=1000).summary())
        sampler.save("bell.ergodic")
        again = eg.load("bell.ergodic", target).sample(jax.random.key(1), 2000)
        assert np.array_equal(again.position, draws.position)
        assert eg.targets.get("dual-moon").dim == 2

        says("to_arviz", "arviz", "pip install 'ergodic-inference[results]'", act=draws.to_arviz)
        nuts = lambda: eg.fit(target, jax.random.key(0), eg.NUTS())
        says("blackjax", "pip install 'ergodic-inference[peers]'", act=nuts)
        says("from_numpyro", "pip install 'ergodic-inference[numpyro]'", act=lambda: eg.from_numpyro(print))
        says("from_pymc", "pip install 'ergodic-inference[pymc]'", act=lambda: eg.from_pymc(print))
        assert not {name.partition(".")[0] for name in sys.modules} & HIDDEN
        """.replace("HIDDEN", repr({*EXTRA_OF, *OF_STUDIES})),
        tmp_path,
    )
    assert "2,000 independent draws" in out and "passed" in out


def test_the_command_line_works_and_says_what_else_there_is(tmp_path):
    (tmp_path / "table.csv").write_text("x,y\n" + "".join(f"{i},{i}\n" for i in range(30)))
    out, err = in_core(
        """
        import functools
        from ergodic.cli import demo

        demo.measure = functools.partial(demo.measure, names=("gaussian",))
        assert command("demo", "-n", 500, "--out", "demo") == 0
        assert command("targets") == command("methods") == command("check", "gaussian") == command("data", "list") == 0
        assert command("fit", "gaussian", "-o", "m.ergodic", "--set", "certify=false") == 0
        assert command("sample", "m.ergodic", "-n", 500) == 0
        for words in (
            ("sample", "m.ergodic", "-n", 10, "-o", "m.nc"),
            ("sample", "m.ergodic", "-n", 10, "-o", "m.zarr"),
            ("generative", "train", "--budget", "1s"),
            ("data", "fetch", "fashion-mnist"),
            ("reproduce", "entropy", "--preset", "smoke"),
            ("bench", "posteriors"),
            ("report", "demo"),
            ("report", "--help"),
        ):
            assert command(*words) == 1, words
        """,
        tmp_path,
    )
    assert (tmp_path / "demo" / "results.json").is_file() and (tmp_path / "m.npz").is_file()
    assert "A figure and a page of this run come with a checkout" in out
    lines = err.splitlines()
    assert len(lines) == 8 and all(line.startswith("error: ") for line in lines), err
    extras = ("results", "results", "networks", "data")
    assert all(f"pip install 'ergodic-inference[{extra}]'" in line for extra, line in zip(extras, lines, strict=False))
    assert all("comes with the studies" in line and "`make` in a checkout" in line for line in lines[4:])


@pytest.mark.parametrize("words", [("demo", "-n", "500", "--out", "demo"), ("report", ".")])
def test_a_figure_says_what_it_needs(tmp_path, words):
    pytest.importorskip("ergodic_studies")
    (tmp_path / "results.json").write_text("{}")
    _, err = in_core(
        f"""
        import functools
        from ergodic.cli import demo

        demo.measure = functools.partial(demo.measure, names=("gaussian",))
        assert command(*{words!r}) == 1
        """,
        tmp_path,
        hidden=OF_STUDIES,
    )
    assert "comes with the studies: run `make` in a checkout" in err and err.count("\n") == 1

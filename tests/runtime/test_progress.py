"""What is going on is shown where it is wanted, and leaves lines in the log; what must be seen is said either way."""

import logging
import sys
import types

import jax
import jax.numpy as jnp
import pytest

import ergodic as eg
from ergodic.runtime import progress as module
from ergodic.runtime.progress import Progress, count_steps, phase


@pytest.fixture
def quiet():
    """The logger as it was before."""
    logger = logging.getLogger("ergodic")
    before = logger.level, list(logger.handlers), logger.propagate
    yield logger
    logger.level, logger.handlers[:], logger.propagate = before
    logger.manager._clear_cache()


@pytest.mark.parametrize("enabled", [True, False, None])
def test_what_must_be_seen_is_said(capfd, caplog, monkeypatch, enabled):
    monkeypatch.setenv(
        "FORCE_COLOR", "1"
    )  # rich then takes the captured stderr for a terminal; sys.stderr says it is none
    with Progress("tuning", 4, enabled=enabled) as bar:
        bar.advance("well", by=3)
        bar.say("stopped early")
    out, err = capfd.readouterr()
    assert out == "" and "stopped early" in caplog.text
    assert ("tuning" in err) == bool(enabled)


def test_a_fit_shows_its_parts_with_steps_and_gradients(capfd, caplog, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    caplog.set_level("INFO", "ergodic")
    target = eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(2))
    sampler = eg.fit(target, jax.random.key(0), eg.GEI(particles=64), progress=True)
    err = capfd.readouterr().err
    for part in ("pilot", "tuning", "pruning", "certificate"):
        assert part in err
        (line, *_) = [each.getMessage() for each in caplog.records if each.getMessage().startswith(part)]
        assert " gradients, " in line and line.endswith(" s")
    counted = sum(
        int(each.getMessage().partition(" gradients")[0].split()[-1].replace(",", "")) for each in caplog.records
    )
    spent = sampler.cost.gradients + sampler.certificate.cost.gradients
    assert 0.5 * spent < counted <= spent
    eg.fit(target, jax.random.key(0), eg.GEI(particles=64), progress=False)
    assert capfd.readouterr().err == ""


def test_a_notebook_has_one_line_that_is_written_over(monkeypatch):
    shown = []

    class Handle:
        def update(self, line):
            shown.append(repr(line))

    def display(line, display_id):
        assert display_id
        shown.append(repr(line))
        return Handle()

    shell = types.SimpleNamespace(config={"IPKernelApp": {}})
    ipython = types.ModuleType("IPython")
    ipython.get_ipython, ipython.display = lambda: shell, types.ModuleType("IPython.display")
    ipython.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    monkeypatch.setattr(module, "_EVERY", 0.0)
    with Progress():
        phase("pilot", 10)
        count_steps(gradients=64)
        with Progress("sampling", 5, enabled=False):  # one inside says nothing
            count_steps()
        count_steps("well", by=3)
    assert shown[1] == "pilot ..." and "1 of 10 steps, 64 gradients" in shown[2] and "s left" in shown[2]
    assert shown[-2].endswith("left; well") and shown[-1].startswith("pilot: 4 of 10 steps") and len(shown) == 5


def test_nothing_is_shown_or_counted_where_nothing_is_open():
    phase("pilot", 3)
    count_steps()
    assert module._current.get() is None


def test_verbosity_is_the_standard_loggers(capfd, quiet):
    eg.set_verbosity("info")
    eg.set_verbosity("info")  # once is enough
    with Progress("tuning", 2, enabled=False) as bar:
        bar.advance(by=2, gradients=8)
    err = capfd.readouterr().err
    assert err.count("ergodic: tuning: 2 of 2 steps, 8 gradients") == 1
    eg.set_verbosity("silent")
    with Progress("tuning", 2, enabled=False) as bar:
        bar.say("stopped")
    assert capfd.readouterr().err == ""
    with pytest.raises(eg.ConfigError, match="one of debug, info"):
        eg.set_verbosity("loud")

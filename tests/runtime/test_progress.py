"""A bar is shown on stderr when it is wanted, and what must be seen is said either way."""

import pytest

from ergodic.runtime.progress import Progress


@pytest.mark.parametrize("enabled", [True, False, None])
def test_what_must_be_seen_is_said(capfd, monkeypatch, enabled):
    monkeypatch.setenv(
        "FORCE_COLOR", "1"
    )  # rich then takes the captured stderr for a terminal; sys.stderr says it is none
    with Progress("tuning", 4, enabled=enabled) as bar:
        bar.advance("well", by=3)
        bar.say("stopped early")
    out, err = capfd.readouterr()
    assert out == "" and "stopped early" in err
    assert ("tuning" in err) == bool(enabled)

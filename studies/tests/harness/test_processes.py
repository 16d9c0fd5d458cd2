"""Work in a process of its own: its result, its failure, and the end of patience."""

import signal
import sys

import pytest

from ergodic_studies.harness.processes import ProcessError, call, run, run_python

HASH = "ergodic_studies.harness.cells:settings_hash"


def test_a_function_is_called_in_a_new_process():
    from ergodic_studies.harness.cells import settings_hash

    assert call(HASH, [{"a": 1}]) == settings_hash({"a": 1})


def test_a_function_that_raises_says_its_last_line():
    with pytest.raises(ProcessError, match="TypeError: settings_hash"):
        call(HASH, [])


def test_patience_ends():
    with pytest.raises(ProcessError, match="killed after 0 seconds"):
        call(HASH, [1], patience=0.01)
    stopped = run([sys.executable, "-c", "import time; time.sleep(60)"], patience=0.05)
    assert stopped.code == -signal.SIGKILL and stopped.seconds < 10


def test_a_command_s_output_seconds_and_memory():
    finished = run_python("-c", "import sys; print('x' * 200_000); print('oh', file=sys.stderr)")
    assert finished.code == 0 and len(finished.output) == 200_001 and finished.errors == "oh\n"
    assert 1 < finished.peak_megabytes < 1000 and finished.problem() is None
    with pytest.raises(ProcessError, match="stopped with code 3"):
        run_python("-c", "import sys; sys.exit(3)")

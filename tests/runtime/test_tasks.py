"""Tasks run by any executor; what is lost is run again."""

from concurrent.futures import Future, ThreadPoolExecutor

import pytest

import ergodic as eg
from ergodic.adapters.executors import opened
from ergodic.runtime import tasks
from posteriors_ergodic import fatal, square


class Forgetful:
    """An executor that loses every other task at first."""

    def __init__(self, times):
        self.lost, self.times = {}, times

    def submit(self, function, /, *arguments):
        future = Future()
        self.lost[arguments] = self.lost.get(arguments, 0) + 1
        if arguments[0] % 2 and self.lost[arguments] <= self.times:
            future.set_exception(ConnectionError("worker gone"))
        else:
            future.set_result(function(*arguments))
        return future


@pytest.mark.parametrize("make", [lambda: ThreadPoolExecutor(2), lambda: Forgetful(3)])
def test_every_task_is_done_once_whoever_runs_it(make, monkeypatch):
    monkeypatch.setattr(tasks, "_AHEAD", 4)
    numbers = [(number,) for number in range(20)]
    with opened(make()) as executor:
        found = list(tasks.finished(executor, square, numbers))
    assert sorted(found) == [(number, number * number) for number in range(20)]


def test_what_kills_every_worker_is_an_error():
    with pytest.raises(
        eg.ErgodicError, match="task 1 was lost 10 times, the last time by ConnectionError: worker gone"
    ):
        list(tasks.finished(Forgetful(100), square, [(0,), (1,)]))


def test_processes_that_die_are_started_again(tmp_path):
    """Real processes, of which three kill themselves."""
    with opened(2) as executor:
        found = list(tasks.finished(executor, fatal, [(number, str(tmp_path)) for number in range(8)]))
    assert sorted(found) == [(number, number) for number in range(8)]
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("wrong", ["localhost:8786", 0, None, object()])
def test_what_is_no_executor_is_refused(wrong):
    with pytest.raises(eg.ConfigError, match="executor"), opened(wrong):
        pass

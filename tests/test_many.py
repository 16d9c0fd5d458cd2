"""Many posteriors in groups: the same wherever they are fitted, and however often workers die."""

import os
import signal
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic import shipping
from ergodic.shipping import draw_there, fit_there
from posteriors_ergodic import normal

KEY = jax.random.key(3)
SMALL = eg.GEI(particles=64, certify=False, chart=False)


class Here:
    """An executor that runs tasks at once, and remembers what travelled."""

    def __init__(self):
        self.tasks = []

    def submit(self, function, /, *arguments):
        from concurrent.futures import Future

        future = Future()
        self.tasks.append((function, arguments))
        future.set_result(function(*arguments))
        return future


def data(members, seed=0):
    return {"y": np.random.default_rng(seed).normal(size=(members, 4, 2)).astype(np.float32)}


def exact(family):
    """Mean and variance of a member: 4 rows of variance 1 and a standard normal prior."""
    return np.asarray(family.data["y"]).sum(axis=1) / 5, 1 / 5


@pytest.fixture(scope="module")
def family():
    return eg.Family(normal, data(5), like=jnp.zeros(2))


@pytest.fixture(scope="module")
def serial(family):
    return eg.fit_many(family, KEY, SMALL, group=2)


def assert_same(one, other):
    assert len(one) == len(other)
    for mine, its in zip(one, other, strict=True):
        jax.tree.map(np.testing.assert_array_equal, mine.params, its.params)
    np.testing.assert_array_equal(one.settled, other.settled)


def test_groups_fitted_elsewhere_are_those_fitted_here(family, serial):
    """Bit for bit, and draws too; what travels is arrays and plain values."""
    there = Here()
    elsewhere = eg.fit_many(family, KEY, SMALL, group=2, executor=there)
    assert_same(serial, elsewhere)
    assert len(serial) == 5 and len(serial.groups) == 3 and serial.settled.all()
    draws = eg.sample_many(elsewhere, KEY, 2000, executor=there)
    for mine, its in zip(eg.sample_many(serial, KEY, 2000), draws, strict=True):
        np.testing.assert_array_equal(mine.unconstrained, its.unconstrained)
    assert {function for function, _ in there.tasks} == {fit_there, draw_there}
    for _, (shipped, *cargo) in there.tasks:
        assert shipped.function == "posteriors_ergodic:normal"
        assert all(isinstance(leaf, np.ndarray | bytes | str | int) for leaf in jax.tree.leaves(cargo))
    mean, variance = exact(family)  # fails for right draws with probability 1e-5 (ten means, 5 standard errors)
    found = np.array([each.unconstrained.mean(axis=0) for each in draws])
    assert (np.abs(found - mean) < 5 * np.sqrt(variance / 2000)).all()


def test_what_is_fitted_is_kept_at_once_and_not_fitted_again(family, serial, tmp_path, monkeypatch):
    """A run that was stopped after one group goes on with the others; another run is not mixed in."""
    calls, fit = [], eg.GEI.fit_family

    def stop_after(limit):
        def counted(self, family, key):
            calls.append(1)
            if len(calls) > limit:
                raise KeyboardInterrupt
            return fit(self, family, key)

        return counted

    with monkeypatch.context() as patch:
        patch.setattr(eg.GEI, "fit_family", stop_after(1))
        with pytest.raises(KeyboardInterrupt):
            eg.fit_many(family, KEY, SMALL, group=2, folder=tmp_path)
    assert len(list(tmp_path.glob("group-*.ergodic"))) == 1
    calls.clear()
    with monkeypatch.context() as patch:
        patch.setattr(eg.GEI, "fit_family", stop_after(2))
        assert_same(serial, eg.fit_many(family, KEY, SMALL, group=2, folder=tmp_path))
    assert len(calls) == 2
    with pytest.raises(eg.StorageError, match="another key or method"):
        eg.fit_many(family, jax.random.key(4), SMALL, group=2, folder=tmp_path)
    with pytest.raises(eg.StorageError, match="another key or method"):
        eg.fit_many(family.with_data(data(5, seed=1)), KEY, SMALL, group=2, folder=tmp_path)


def test_a_group_that_fails_leaves_the_others(family, monkeypatch):
    fit = eg.GEI.fit_family

    def failing(self, family, key):
        if (jax.random.key_data(key) == jax.random.key_data(jax.random.fold_in(KEY, 1))).all():
            raise eg.TargetError("nowhere finite")
        return fit(self, family, key)

    monkeypatch.setattr(eg.GEI, "fit_family", failing)
    for executor in (None, Here()):
        found = eg.fit_many(family, KEY, SMALL, group=2, executor=executor)
        assert found.failed == {1: "TargetError: nowhere finite"}
        np.testing.assert_array_equal(found.settled, [True, True, False, False, True])
        with pytest.raises(eg.ErgodicError, match=r"group 1 was not fitted \(TargetError: nowhere finite"):
            found[3]
        assert found[4].sample(KEY, 10).unconstrained.shape == (10, 2)


def test_a_list_of_targets_with_data_is_a_family(family, serial):
    """As `with_data` makes them; each draws alone, here or elsewhere."""
    first = eg.Target(normal, like=jnp.zeros(2), data={"y": data(5)["y"][0]}, name="normal")
    targets = [first, *(first.with_data({"y": row}) for row in data(5)["y"][1:])]
    fitted = eg.fit_many(targets, KEY, SMALL, group=2, executor=Here())
    assert_same(serial, fitted)
    two = [eg.fit(target, KEY, SMALL) for target in targets[:2]]
    for mine, its in zip(eg.sample_many(two, KEY, 100), eg.sample_many(two, KEY, 100, executor=Here()), strict=True):
        np.testing.assert_array_equal(mine.unconstrained, its.unconstrained)


def closed_over(rows):
    return eg.Target(lambda x: normal(x, {"y": rows}), like=jnp.zeros(2))


def test_what_cannot_travel_is_refused_before_any_work():
    lambdas = eg.Family(lambda x, d: -jnp.sum((x[None] - d["y"]) ** 2), data(2), like=jnp.zeros(2))
    with pytest.raises(eg.ConfigError, match="at the top of a module"):
        eg.fit_many(lambdas, KEY, SMALL, executor=Here())
    with pytest.raises(eg.ConfigError, match="at the top of a module"):
        eg.fit_many([closed_over(jnp.asarray(row)) for row in data(2)["y"]], KEY, SMALL, executor=Here())
    alone = SMALL.fit(closed_over(jnp.zeros((4, 2))), KEY)
    with pytest.raises(eg.ConfigError, match="closed over its data"):
        eg.sample_many([alone], KEY, 10, executor=Here())
    assert shipping.found(shipping.path_of(normal)) is normal


def killed_now_and_then(pids, times, stop):
    """Kill one worker, and whoever replaces it, so many times."""
    killed = set()
    while len(killed) < times and not stop.wait(0.5):
        alive = [pid for pid in pids() if pid not in killed]
        if alive:
            killed.add(alive[0])
            os.kill(alive[0], signal.SIGKILL)
            stop.wait(4)
    return killed


@pytest.mark.slow
def test_a_cluster_whose_workers_are_killed_fits_them_all(tmp_path):
    """A real Dask cluster: 200 posteriors on two workers, one of which is killed three times; all as if alone."""
    from distributed import Client, LocalCluster

    family = eg.Family(normal, data(200), like=jnp.zeros(2))
    serial = eg.fit_many(family, KEY, SMALL, group=4)
    stop, killed = threading.Event(), set()
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        first = next(iter(cluster.workers.values()))
        killer = threading.Thread(target=lambda: killed.update(killed_now_and_then(lambda: [first.pid], 3, stop)))
        killer.start()
        found = eg.fit_many(family, KEY, SMALL, group=4, executor=client, folder=tmp_path)
        stop.set()
        killer.join()
    assert len(killed) == 3 and not found.failed
    assert_same(serial, found)


@pytest.mark.slow
def test_a_pool_of_processes_fits_them_too(family, serial):
    """Two real processes of this machine."""
    assert_same(serial, eg.fit_many(family, KEY, SMALL, group=2, executor=2))

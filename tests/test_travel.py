"""What was fitted goes to other processes, is copied, and comes back as it was."""

import copy
import multiprocessing
import pickle
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.runtime import travel


def bowl(x):
    """A log-density at the top of a module, which every process finds."""
    return -0.5 * jnp.sum(x**2)


@pytest.fixture(scope="module")
def sampler():
    return eg.fit(
        eg.Target(bowl, like=jnp.zeros(2)), jax.random.key(0), eg.GEI(particles=64), progress=False, max_gradients=1e5
    )


def draw_in_process(sampler, seed, out):
    out.put(sampler.sample(jax.random.key(seed), 3, progress=False))


def assert_same_draws(one, other):
    key = jax.random.key(5)
    np.testing.assert_array_equal(
        one.sample(key, 20, progress=False).unconstrained, other.sample(key, 20, progress=False).unconstrained
    )


def test_a_sampler_is_pickled_with_its_target_certificate_and_draws(sampler):
    again = pickle.loads(pickle.dumps(sampler))
    assert again.certificate == sampler.certificate and again.method == sampler.method
    np.testing.assert_array_equal(again.draws.unconstrained, sampler.draws.unconstrained)
    assert again.target.density.function is bowl and again.target is not sampler.target
    assert_same_draws(again, sampler)
    assert again.certify(jax.random.key(3)).draws >= sampler.certificate.draws // 2  # it gathers anew


def test_copies_share_the_target_and_nothing_that_changes(sampler):
    for twin in (copy.copy(sampler), copy.deepcopy(sampler)):
        assert twin.target is sampler.target  # what was compiled for it is used again
        assert_same_draws(twin, sampler)
    deep = copy.deepcopy(sampler)
    deep.record["memory"][:] = -1
    assert np.all(sampler.record["memory"] >= 0)


def test_builtin_targets_families_and_double_precision_come_by_name(x64):
    moon = eg.targets.get("dual-moon")
    data = pickle.dumps(moon)
    assert pickle.loads(data) is moon
    wide = eg.Target(bowl, like=jnp.zeros(3))
    assert pickle.loads(pickle.dumps(wide)).dtype == np.float64
    with jax.enable_x64(False), pytest.raises(eg.StorageError, match=r'jax_enable_x64", True'):
        pickle.loads(data)


def test_families_come_with_their_members(sampler):
    family = eg.Family.of([sampler.target, eg.targets.get("gaussian")][:1])
    again = pickle.loads(pickle.dumps(family))
    assert len(again) == 1 and again[0].density.function is bowl
    own = eg.Family(shifted, jnp.arange(3.0), jnp.zeros(2))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(own)).data, own.data)


def test_targets_and_families_of_other_data_come_with_these():
    """What `with_data` makes, again and again; and members, also of targets that have closed over their data."""
    target = eg.Target(shifted, like=jnp.zeros(2), data=jnp.asarray(1.0)).with_data(jnp.asarray(2.0))
    assert float(pickle.loads(pickle.dumps(target)).density(jnp.ones(2))) == -1
    family = eg.Family(shifted, jnp.arange(3.0), jnp.zeros(2)).with_data(jnp.arange(4.0)).with_data(jnp.arange(5.0))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(family)).data, jnp.arange(5.0))
    alone = eg.Family.of([eg.Target(lambda x, c=c: shifted(x, c), like=jnp.zeros(2)) for c in jnp.arange(4.0)])
    for other in (family, alone.with_data(jax.tree.map(lambda leaf: leaf[:2], alone.data))):
        member = pickle.loads(pickle.dumps(other[1]))
        assert member.name == other[1].name and float(member.density(jnp.zeros(2))) == -1


def shifted(x, centre):
    return -0.5 * jnp.sum((x - centre) ** 2)


def test_functions_without_a_place_go_by_value_or_say_what_to_do(monkeypatch):
    scale = jnp.asarray(2.0)
    target = eg.Target(lambda x: -scale * jnp.sum(x**2), like=jnp.zeros(2))
    again = pickle.loads(pickle.dumps(target))
    assert float(again.density(jnp.ones(2))) == -4
    monkeypatch.setattr(travel, "installed", lambda package: False)
    with pytest.raises(eg.StorageError, match=r"top of a module.*ergodic-inference\[parallel\].*eg.load"):
        pickle.dumps(target)


@pytest.mark.slow
def test_another_process_draws_the_same(sampler):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX and forking; this process is a fresh one
        context = multiprocessing.get_context("spawn")
        results = context.Queue()
        worker = context.Process(target=draw_in_process, args=(sampler, 4, results))
        worker.start()
        found = results.get(timeout=300)
        worker.join()
    here = sampler.sample(jax.random.key(4), 3, progress=False)
    np.testing.assert_allclose(found.unconstrained, here.unconstrained, rtol=1e-3, atol=1e-4)
    assert found.target.name == "bowl" and found.attributes["seed"] == here.attributes["seed"]


def test_joblib_draws_in_processes(sampler):
    joblib = pytest.importorskip("joblib")
    target = eg.Target(lambda x: -0.5 * jnp.sum(x**2), like=jnp.zeros(2))
    twin = copy.copy(sampler)
    twin.target = target
    (found,) = joblib.Parallel(n_jobs=2)([joblib.delayed(twin.sample)(jax.random.key(4), 3, progress=False)])
    here = sampler.sample(jax.random.key(4), 3, progress=False)
    np.testing.assert_allclose(found.unconstrained, here.unconstrained, rtol=1e-3, atol=1e-4)


def test_models_are_made_again_from_their_arguments():
    target = eg.from_numpyro(model, np.ones(3, np.float32))
    again = pickle.loads(pickle.dumps(target))
    assert again.names == target.names and again is not target
    assert float(again.density(jnp.ones(1))) == float(target.density(jnp.ones(1)))


def model(y):
    import numpyro
    import numpyro.distributions as dist

    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.diagnostics.health import worries
from ergodic.runtime import programs


def test_the_same_key_gives_the_same_draws_and_another_does_not(gaussian_sampler):
    one, same, other = (gaussian_sampler.sample(jax.random.key(k), 200) for k in (1, 1, 2))
    np.testing.assert_array_equal(one.unconstrained, same.unconstrained)
    assert not np.any(one.unconstrained == other.unconstrained)


def test_fit_is_reproducible_by_key():
    target, method = eg.targets.get("gaussian"), eg.HEI(iterations=3)
    one, same, other = (eg.fit(target, jax.random.key(k), method).params for k in (1, 1, 2))
    np.testing.assert_array_equal(one.transitions.log_step, same.transitions.log_step)
    assert not np.any(np.asarray(one.transitions.log_step) == np.asarray(other.transitions.log_step))


def test_chunks_cover_every_draw_and_none_twice(gaussian_sampler):
    draws = gaussian_sampler.sample(jax.random.key(1), 1000, chunk=64)
    assert draws.unconstrained.shape == (1000, 2) and len(draws) == 1000
    assert len(np.unique(draws.unconstrained, axis=0)) == 1000
    value, _ = gaussian_sampler.target.density.batched(jnp.asarray(draws.unconstrained))
    np.testing.assert_allclose(draws.logdensity, value, rtol=1e-4, atol=1e-5)
    assert draws.cost.gradients == 16 * 64 * 51


def test_more_draws_do_not_change_the_first_ones(gaussian_sampler):
    few = gaussian_sampler.sample(jax.random.key(1), 100, chunk=64)
    many = gaussian_sampler.sample(jax.random.key(1), 300, chunk=64)
    np.testing.assert_array_equal(many.unconstrained[:100], few.unconstrained)
    fewer = gaussian_sampler.sample(jax.random.key(1), 30, chunk=64)  # whole chunks, where one is given
    np.testing.assert_array_equal(many.unconstrained[:30], fewer.unconstrained)
    assert fewer.cost.gradients == 64 * gaussian_sampler.depth


def test_fewer_draws_than_a_chunk_are_its_first_ones_even_where_rounding_decides():
    """On a narrow ridge, with long trajectories, other shapes of a batch accept other proposals: 4 rows of 100 did."""
    target = eg.Target(lambda x: -0.5 * (x[0] ** 2 + 1e4 * (x[1] - jnp.sin(3 * x[0])) ** 2), like=jnp.zeros(2))
    sampler = eg.HEI(steps=6, leapfrogs=30, step_size=(0.02, 0.02)).untuned(target, jax.random.key(0))
    many = sampler.sample(jax.random.key(1), 600, chunk=256)
    for n in (1, 100, 256):
        few = sampler.sample(jax.random.key(1), n, chunk=256)
        np.testing.assert_array_equal(few.unconstrained, many.unconstrained[:n])
    family = eg.Family(lambda x, at: -0.5 * jnp.sum((x - at) ** 2), data=jnp.arange(2.0), like=jnp.zeros(2))
    members = eg.fit_many(family, jax.random.key(0), eg.GEI(particles=64, certify=False))
    few, many = (members.sample(jax.random.key(1), n, chunk=64) for n in (10, 100))
    np.testing.assert_array_equal(few.unconstrained, many.unconstrained[:, :10])


def test_draws_are_independent(gaussian_sampler):
    """Lag-1 correlation of 20,000 draws, each coordinate: |r| sqrt(n) < 4.5, probability of failure 1.4e-5."""
    x = gaussian_sampler.sample(jax.random.key(5), 20_000).unconstrained.astype(np.float64)
    for column in x.T:
        r = np.corrcoef(column[:-1], column[1:])[0, 1]
        assert abs(r) * np.sqrt(len(column)) < 4.5


def test_nothing_is_traced_or_compiled_twice():
    calls = []

    def logdensity(x):
        calls.append(1)
        return -0.5 * jnp.sum(x**2)

    target = eg.Target(logdensity, like=jnp.zeros(2))
    method = eg.HEI(steps=3, leapfrogs=4, iterations=3)
    first = eg.fit(target, jax.random.key(0), method)
    first.sample(jax.random.key(1), 100)
    traces, kept = len(calls), len(programs._programs)
    assert first.cost.compile_seconds > 0

    again = eg.fit(target, jax.random.key(2), method)
    draws = again.sample(jax.random.key(3), 100)
    assert len(calls) == traces
    assert len(programs._programs) == kept
    assert again.cost.compile_seconds == draws.cost.compile_seconds == 0

    # The number of traces does not depend on how long the chain or the training is.
    before = len(calls)
    eg.fit(target, jax.random.key(0), eg.HEI(steps=9, leapfrogs=7, iterations=5)).sample(jax.random.key(1), 100)
    longer = len(calls) - before
    assert longer <= traces


def test_a_new_target_sees_data_that_has_changed():
    """As in a notebook: the function reads a global, which is set anew before the Target is made again."""
    data = {"centre": 0.0}

    def logdensity(x):
        return -0.5 * jnp.sum((x - data["centre"]) ** 2)

    means = []
    for centre in (0.0, 3.0):
        data["centre"] = centre
        target = eg.Target(logdensity, like=jnp.zeros(2))
        sampler = eg.fit(target, jax.random.key(0), eg.HEI(iterations=30))
        means.append(sampler.sample(jax.random.key(1), 2000).unconstrained.mean())
    assert means[1] - means[0] > 2


def test_draws_outside_the_support_are_recovered_or_warned_about():
    """log x has no value left of zero, where half of P0 lies: most runs find the support, the rest are reported."""
    target = eg.Target(lambda x: jnp.sum(jnp.log(x) - x), like=jnp.ones(1))
    sampler = eg.HEI(initial_scale=1.0, step_size=(0.3, 0.3)).untuned(target, jax.random.key(0))
    with pytest.warns(eg.DrawsWarning, match="not finite"):
        draws = sampler.sample(jax.random.key(1), 2000)
    lost = ~np.isfinite(draws.logdensity)
    assert 0 < lost.mean() < 0.4 and np.all(draws.unconstrained[~lost] > 0)
    assert np.all(np.isfinite(draws.trace["expected_logdensity"]))
    assert any("not finite" in worry for worry in worries(draws))


def test_worries_name_what_is_wrong(gaussian_sampler):
    assert worries(gaussian_sampler.sample(jax.random.key(0), 5000)) == []
    untuned = gaussian_sampler.method.untuned(gaussian_sampler.target, jax.random.key(0))
    assert "still moves" in " ".join(worries(untuned.sample(jax.random.key(0), 5000)))
    wild = eg.HEI(step_size=(30.0, 30.0)).untuned(gaussian_sampler.target, jax.random.key(0))
    said = " ".join(worries(wild.sample(jax.random.key(0), 500)))
    assert "diverging" in said and "almost every proposal is rejected" in said


def test_costs_are_recorded(gaussian_sampler):
    assert gaussian_sampler.cost.gradients == 50 * 100 * 51
    assert gaussian_sampler.cost.depth == 50 * 51
    assert gaussian_sampler.cost.run_seconds > 0
    draws = gaussian_sampler.sample(jax.random.key(0), 100)
    assert draws.cost.gradients == 100 * 51 and draws.cost.depth == 51


def test_draws_across_devices_agree_to_rounding(gaussian_sampler):
    """Particles sharded over two devices give the draws that one device gives."""
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from ergodic.chain import advance
    from ergodic.kernels import start

    sampler = gaussian_sampler
    density, kernel = sampler.target.density.batched, sampler.method.kernel
    x = sampler.params.initial.sample(jax.random.key(0), 64)
    mesh = Mesh(np.array(jax.devices()[:2]), ("particles",))
    spread = jax.device_put(x, NamedSharding(mesh, PartitionSpec("particles")))

    @jax.jit
    def run(x):
        return advance(density, kernel, sampler.params.transitions, start(density, x), jax.random.key(1))[0]

    one, two = run(x), run(spread)
    assert len(two.position.sharding.device_set) == 2
    np.testing.assert_allclose(one.position, two.position, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", [0, -3, 2.5, True, "7"])
def test_a_silly_number_of_draws_is_refused(gaussian_sampler, n):
    with pytest.raises(eg.ConfigError, match="number of draws"):
        gaussian_sampler.sample(jax.random.key(0), n)
    with pytest.raises(eg.ConfigError, match="chunk"):
        gaussian_sampler.sample(jax.random.key(0), 10, chunk=n)


def test_fit_wants_a_target_a_key_and_a_method():
    with pytest.raises(eg.ConfigError, match=r"eg\.Target"):
        eg.fit(lambda x: -0.5 * jnp.sum(x**2), jax.random.key(0))
    with pytest.raises(eg.ConfigError, match=r"jax\.random\.key"):
        eg.fit(eg.targets.get("gaussian"), 0)
    for method in (eg.HEI, "HEI"):
        with pytest.raises(eg.ConfigError, match=r"eg\.HEI\(\)"):
            eg.fit(eg.targets.get("gaussian"), jax.random.key(0), method)


def test_reprs_are_one_readable_line(gaussian_sampler):
    draws = gaussian_sampler.sample(jax.random.key(0), 100)
    assert "100 independent draws of 'gaussian'" in repr(draws)
    assert "HEI on 'gaussian'" in repr(gaussian_sampler)
    assert "dim=2" in repr(gaussian_sampler.target)

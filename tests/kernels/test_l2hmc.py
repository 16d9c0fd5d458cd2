from dataclasses import replace

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.chain import ChainParams, simulate
from ergodic.initial import DiagonalGaussian
from ergodic.kernels import leapfrog, start
from ergodic.kernels.ensemble import select
from ergodic.kernels.l2hmc import L2HMC, nvp_leapfrog
from ergodic.tuning.ascent import maximise
from ergodic.tuning.emlbo import Emlbo, full
from statistics_ergodic import two_sample_p, z_of_mean

N = 100_000


def crooked(x):
    """Asymmetric and non-quadratic in three dimensions, so that a sign error cannot hide."""
    return -0.25 * jnp.sum(x**4) + x[0] * x[1] - jnp.exp(0.3 * x[2]) + 0.5 * x[0]


def gumbel(x):
    """x1 ~ Gumbel (skewed), x2 | x1 ~ N(x1²/4, 1): asymmetric, correlated, with exact draws."""
    return -x[0] - jnp.exp(-x[0]) - 0.5 * (x[1] - 0.25 * x[0] ** 2) ** 2


def draw_gumbel(key, n):
    a, b = jax.random.split(key)
    x1 = jax.random.gumbel(a, (n,))
    return jnp.stack([x1, 0.25 * x1**2 + jax.random.normal(b, (n,))], axis=-1)


def quartic(x):
    """Steep, asymmetric and coupled: forces overflow quickly for large steps."""
    return -jnp.sum(x**4) + x[0] * x[1] ** 2 + 0.3 * x[0]


def batched(logdensity):
    return jax.vmap(jax.value_and_grad(logdensity))


CROOKED, GUMBEL, QUARTIC = batched(crooked), batched(gumbel), batched(quartic)
move = jax.jit(nvp_leapfrog, static_argnums=0)
init = jax.jit(L2HMC.init, static_argnums=(0, 2, 3, 4, 5))


def shaken(params):
    """Every parameter moved a little: no bias is zero, so that no relu sits on its kink."""
    flat, unravel = jax.flatten_util.ravel_pytree(params)
    return unravel(flat + 0.1 * jax.random.normal(jax.random.key(9), flat.shape, flat.dtype))


def check_gradient(value, gradient, function, params, rtol, h=1e-6):
    """A scalar function's value, and its gradient against central differences along ten random directions."""
    flat, unravel = jax.flatten_util.ravel_pytree(params)
    directions = jax.random.normal(jax.random.key(8), (10, flat.size), flat.dtype)
    shifts = h * jnp.concatenate([directions, -directions, jnp.zeros((1, flat.size))])
    values = jax.jit(jax.vmap(lambda shift: function(unravel(flat + shift))))(shifts)
    np.testing.assert_allclose(value, values[-1], rtol=1e-10)
    along = directions @ jax.flatten_util.ravel_pytree(gradient)[0]
    np.testing.assert_allclose(along, (values[:10] - values[10:20]) / (2 * h), rtol=rtol, atol=1e-8)
    assert np.abs(along).min() > 1e-3  # it is not flat


def zeroed(params):
    """The same kernel whose networks give zero, whatever their hidden layers do."""
    still = {name: jnp.zeros_like(getattr(params.momentum, name)) for name in ("heads", "heads_bias")}
    return params._replace(momentum=params.momentum._replace(**still), position=params.position._replace(**still))


@pytest.fixture
def rough(x64):
    """Networks with large random weights on the crooked target, in double precision."""
    kernel = L2HMC(leapfrogs=4, head_factor=0.5)
    params = shaken(init(kernel, jax.random.key(5), None, 3, jnp.float64, 0.3))
    x, v = jax.random.normal(jax.random.key(0), (2, 6, 3), jnp.float64)

    def run(ensemble, v, forward, params=params):
        step = jnp.full(len(v), 0.3)
        return move(CROOKED, params, ensemble, v, step, forward, jnp.asarray(kernel.masks(3)))

    return kernel, params, x, v, run


def test_backward_undoes_forward_exactly(rough):
    _, _, x, v, run = rough
    for forward in (jnp.ones(6, bool), jnp.zeros(6, bool), jnp.arange(6) % 2 == 0):
        end, momentum, log_jacobian = run(start(CROOKED, x), v, forward)
        back, start_momentum, inverse = run(end, momentum, ~forward)
        np.testing.assert_allclose(back.position, x, atol=1e-12)
        np.testing.assert_allclose(start_momentum, v, atol=1e-12)
        np.testing.assert_allclose(inverse, -log_jacobian, atol=1e-12)
        assert np.abs(end.position - x).max() > 0.3  # it did go somewhere
    ahead, behind = (run(start(CROOKED, x), v, jnp.full(6, way))[0] for way in (True, False))
    assert np.abs(ahead.position - behind.position).max() > 0.3


def test_log_jacobian_is_that_of_the_map(rough):
    _, _, x, v, run = rough
    forward = jnp.arange(6) % 2 == 0

    @jax.jit
    def flow(z):
        end, momentum, _ = run(start(CROOKED, z[:, :3]), z[:, 3:], forward)
        return jnp.sum(jnp.concatenate([end.position, momentum], axis=1), axis=0)  # particles do not meet

    _, _, claimed = run(start(CROOKED, x), v, forward)
    jacobian = jnp.swapaxes(jax.jacrev(flow)(jnp.concatenate([x, v], axis=1)), 0, 1)
    np.testing.assert_allclose(claimed, np.linalg.slogdet(np.asarray(jacobian))[1], atol=1e-10)
    assert np.abs(claimed).min() > 0.05  # the volume does change


def test_it_is_the_papers_map(rough):
    """Against the formulas of the module's docstring, written out with 0/1 masks."""
    kernel, params, x, v, run = rough
    eps, log_jacobian, y, w = 0.3, 0.0, x, v

    def network(net, a, b, t):
        time = jnp.broadcast_to(jnp.array([np.cos(2 * np.pi * t / 4), np.sin(2 * np.pi * t / 4)])[None], (6, 2))
        h = jax.nn.relu(jnp.concatenate([a, b, time], axis=1) @ net.inputs + net.inputs_bias[None])
        h = jax.nn.relu(h @ net.hidden + net.hidden_bias[None])
        s, q, t = (h @ net.heads[:, i] + net.heads_bias[i][None] for i in range(3))
        s, q = (jnp.exp(net.log_coefficient[i])[None] * jnp.tanh(y) for i, y in enumerate((s, q)))
        return s, q, t

    def kick(y, w, t):
        force = CROOKED(y)[1]
        s, q, b = network(params.momentum, y, -force, t)
        return w * jnp.exp(eps / 2 * s) + eps / 2 * (force * jnp.exp(eps * q) + b), jnp.sum(eps / 2 * s, axis=1)

    def drift(y, w, m, t):
        s, q, b = network(params.position, w, m * y, t)
        moved = y * jnp.exp(eps * s) + eps * (w * jnp.exp(eps * q) + b)
        return m * y + (1 - m) * moved, jnp.sum((1 - m) * eps * s, axis=1)

    for t, mask in enumerate(kernel.masks(3)):
        m = jnp.asarray(mask, jnp.float64)[None]
        w, j1 = kick(y, w, t)
        y, j2 = drift(y, w, m, t)
        y, j3 = drift(y, w, 1 - m, t)
        w, j4 = kick(y, w, t)
        log_jacobian = log_jacobian + j1 + j2 + j3 + j4

    end, momentum, claimed = run(start(CROOKED, x), v, jnp.ones(6, bool))
    np.testing.assert_allclose(end.position, y, rtol=1e-10)
    np.testing.assert_allclose(momentum, w, rtol=1e-10)
    np.testing.assert_allclose(claimed, log_jacobian, rtol=1e-10)
    value, force = CROOKED(y)
    np.testing.assert_allclose(end.logdensity, value, rtol=1e-10)
    np.testing.assert_allclose(end.gradient, force, rtol=1e-10)


def test_without_networks_it_is_the_plain_leapfrog(rough):
    _, params, x, v, run = rough
    forward = jnp.arange(6) % 2 == 0
    end, momentum, log_jacobian = run(start(CROOKED, x), v, forward, zeroed(params))
    step = jnp.broadcast_to(jnp.where(forward, 0.3, -0.3)[:, None], (6, 3))
    plain, plain_momentum = leapfrog(CROOKED, start(CROOKED, x), v, step, jnp.ones((1, 3)), 4)
    np.testing.assert_allclose(end.position, plain.position, rtol=1e-11)
    np.testing.assert_allclose(momentum, plain_momentum, rtol=1e-11)
    np.testing.assert_array_equal(log_jacobian, 0)


def test_masks_are_halves_fixed_for_good():
    masks = L2HMC(leapfrogs=3).masks(5)
    np.testing.assert_array_equal(masks.sum(axis=1), 2)
    # Written down: a saved sampler must find the masks it was trained with.
    np.testing.assert_array_equal(masks, [[0, 0, 0, 1, 1], [0, 1, 0, 0, 1], [0, 1, 0, 0, 1]])
    assert not np.array_equal(masks, L2HMC(leapfrogs=3, mask_seed=1).masks(5))


KERNEL = L2HMC(leapfrogs=3, head_factor=0.2)
STEP = 0.4


@pytest.fixture(scope="module")
def stationary():
    params = init(KERNEL, jax.random.key(7), None, 2, jnp.float32, STEP)
    before = start(GUMBEL, draw_gumbel(jax.random.key(0), N))
    after, info = jax.jit(KERNEL.transition, static_argnums=0)(GUMBEL, params, before, jax.random.key(1))
    return params, before, after, info


def test_one_transition_leaves_an_asymmetric_target_unchanged(stationary):
    """Two-sample test against fresh exact draws; fails for a right kernel with probability 1e-4 (fixed seed)."""
    _, _, after, info = stationary
    assert two_sample_p(after.position, draw_gumbel(jax.random.key(2), N)) > 1e-4
    assert 0.5 < float(jnp.mean(info.acceptance)) < 0.9


def test_the_change_of_moments_is_noise(stationary):
    """Paired differences of x and x² average to zero: |z| < 4.5 for four of them, probability of failure 3e-5."""
    _, before, after, _ = stationary
    for power in (1, 2):
        change = np.asarray(after.position, np.float64) ** power - np.asarray(before.position, np.float64) ** power
        assert np.abs(z_of_mean(change, 0.0)).max() < 4.5


@pytest.mark.parametrize("mistake", ["no Jacobian", "always forward"])
def test_the_stationarity_test_has_power(stationary, mistake):
    """It can fail: an acceptance without log|J|, or a map whose inverse is never proposed, is seen."""
    params, before, _, _ = stationary
    keys = jax.random.split(jax.random.key(1), 3)
    v = jax.random.normal(keys[0], (N, 2))
    forward = jax.random.bernoulli(keys[1], 0.5, (N,)) | (mistake == "always forward")
    end, w, log_jacobian = move(GUMBEL, params, before, v, jnp.full(N, STEP), forward, jnp.asarray(KERNEL.masks(2)))
    rise = 0.5 * jnp.sum(w**2 - v**2, axis=1) - end.logdensity + before.logdensity
    error = rise if mistake == "no Jacobian" else rise - log_jacobian
    accepted = (jnp.log(jax.random.uniform(keys[2], (N,))) < -error) & end.usable()
    moved = jnp.where(accepted[:, None], end.position, before.position)
    assert two_sample_p(moved, draw_gumbel(jax.random.key(2), N)) < 1e-6
    assert float(jnp.std(log_jacobian, where=end.usable())) > 0.2


def test_acceptance_and_what_is_carried(stationary):
    _, before, after, info = stationary
    expected = np.minimum(1.0, np.exp(-np.asarray(info.energy_error, np.float64)))
    np.testing.assert_allclose(info.acceptance, expected, rtol=1e-4, atol=1e-6)
    # Binomial: the accepted count against the sum of probabilities, |z| < 4.5, probability of failure 7e-6.
    z = (np.sum(np.asarray(info.accepted)) - expected.sum()) / np.sqrt(np.sum(expected * (1 - expected)))
    assert abs(z) < 4.5
    stayed = ~np.asarray(info.accepted)
    np.testing.assert_array_equal(np.asarray(after.position)[stayed], np.asarray(before.position)[stayed])
    value, gradient = GUMBEL(after.position[:500])
    np.testing.assert_allclose(after.logdensity[:500], value, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(after.gradient[:500], gradient, rtol=2e-4, atol=2e-4)


def test_a_transition_costs_the_gradients_it_says():
    calls = []

    def density(x):
        jax.debug.callback(lambda: calls.append(len(x)))
        return CROOKED(x)

    kernel = L2HMC(leapfrogs=4)
    params = init(kernel, jax.random.key(0), None, 3, jnp.float32, 0.1)
    begin = start(CROOKED, jnp.ones((5, 3)))
    jax.jit(lambda begin: kernel.transition(density, params, begin, jax.random.key(1)))(begin)
    jax.effects_barrier()
    assert calls == [5] * kernel.gradients == [5] * 4


def test_diverged_and_non_finite_moves_stay_put():
    """log(x) has no value left of zero: proposals there are rejected and reported. One dimension: an empty mask."""
    density = batched(lambda x: jnp.sum(jnp.log(x) - x))
    begin = start(density, jnp.full((256, 1), 0.5))
    kernel = L2HMC(leapfrogs=2, head_factor=0.1)
    params = init(kernel, jax.random.key(0), None, 1, jnp.float32, 2.0)
    end, info = jax.jit(kernel.transition, static_argnums=0)(density, params, begin, jax.random.key(0))
    diverged = np.asarray(info.diverged)
    assert diverged.any() and not diverged.all()
    assert np.all(np.isfinite(end.position)) and np.all(np.isfinite(end.logdensity))
    np.testing.assert_array_equal(np.asarray(end.position)[diverged], 0.5)
    assert np.all(np.asarray(info.acceptance)[diverged] == 0)


def test_all_forms_make_the_same_move(stationary):
    params, before, _, _ = stationary
    some, key = jax.tree.map(lambda leaf: leaf[:2000], before), jax.random.key(3)

    @jax.jit
    def forms(params, some):
        held = replace(KERNEL, acceptance_gradient=False)
        transitions = KERNEL.transition, KERNEL.differentiable_transition, held.differentiable_transition
        moves = [transition(GUMBEL, params, some, key) for transition in transitions]
        return moves, KERNEL.differentiable_proposal(GUMBEL, params, some, key)

    ((plain, info), *others), (proposal, acceptance, _) = forms(params, some)
    stayed = ~np.asarray(info.accepted)
    for other, info_too in others:
        np.testing.assert_array_equal(info.accepted, info_too.accepted)
        np.testing.assert_allclose(other.position, plain.position, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(np.asarray(other.position)[stayed], np.asarray(some.position)[stayed])
    moved = jnp.where(info.accepted[:, None], proposal.position, some.position)
    np.testing.assert_allclose(moved, plain.position, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(acceptance, np.where(info.diverged, 1, info.acceptance), rtol=1e-3, atol=1e-5)


# As the kernel of an ergodic chain.

PARTICLES, STEPS = 16, 3
KEY = jax.random.key(11)


def chain_of(kernel, step, dtype):
    initial = DiagonalGaussian(jnp.array([0.2, -0.1], dtype), jnp.log(jnp.array([0.7, 0.9], dtype)))
    transitions = init(kernel, jax.random.key(3), STEPS, 2, dtype, 0.1)
    return ChainParams(initial, transitions._replace(log_step=jnp.full(STEPS, np.log(step), dtype)))


@pytest.mark.parametrize("acceptance_gradient", [True, False])
def test_a_chains_gradients_are_finite_for_any_step_size(acceptance_gradient):
    """DESIGN's test number one: step sizes 1e-4 to 1e8 on a quartic, in float32, with networks that matter."""
    kernel = L2HMC(leapfrogs=4, head_factor=0.5, acceptance_gradient=acceptance_gradient)
    run = jax.jit(lambda p: full(QUARTIC, kernel, p, KEY, PARTICLES))
    for step in 10.0 ** np.arange(-4, 9):
        estimate, gradient = run(chain_of(kernel, step, jnp.float32))
        for leaf in jax.tree.leaves((estimate, gradient)):
            assert np.all(np.isfinite(leaf)), f"step size {step}"
    for leaf in jax.tree.leaves(gradient.transitions):
        np.testing.assert_array_equal(leaf, 0)  # everything diverged: exactly zero


def test_a_chains_gradient_equals_finite_differences_with_accepts_held(x64):
    kernel = L2HMC(leapfrogs=2, hidden=4, head_factor=0.5, acceptance_gradient=False)
    params = chain_of(kernel, 0.45, jnp.float64)
    params = params._replace(transitions=shaken(params.transitions))
    estimate, gradient = jax.jit(lambda p: full(QUARTIC, kernel, p, KEY, PARTICLES))(params)

    noise_key, chain_key = jax.random.split(KEY)
    keys = jax.random.split(chain_key, STEPS)
    begin = start(QUARTIC, params.initial.transform(jax.random.normal(noise_key, (PARTICLES, 2), jnp.float64)))

    def transition(ensemble, at):
        ensemble, info = kernel.transition(QUARTIC, at[0], ensemble, at[1])
        return ensemble, info.accepted

    _, accepted = jax.lax.scan(transition, begin, (params.transitions, keys))
    assert 0.2 < np.mean(accepted) < 0.95

    def held(transitions):
        def step(ensemble, at):
            phi, key, accepted = at
            direction_key, momentum_key, _ = jax.random.split(key, 3)
            v = jax.random.normal(momentum_key, (PARTICLES, 2), jnp.float64)
            forward = jax.random.bernoulli(direction_key, 0.5, (PARTICLES,))
            eps = jnp.full(PARTICLES, jnp.exp(phi.log_step))
            end, _, _ = nvp_leapfrog(QUARTIC, phi, ensemble, v, eps, forward, jnp.asarray(kernel.masks(2)))
            return select(accepted, end, ensemble), None

        end, _ = jax.lax.scan(step, begin, (transitions, keys, accepted))
        return jnp.mean(end.logdensity)

    check_gradient(estimate.final, gradient.transitions, held, params.transitions, rtol=1e-5)


def test_the_acceptances_part_is_exact_where_the_rest_is_linear(x64):
    """One transition on log π* = g = a·x: ∂ of 1[accepted] g(x') + A (g(x') - g(x)), the brackets held, log|J| in A."""
    density = batched(lambda x: jnp.sum(jnp.array([0.7, -1.2]) * x))
    kernel = L2HMC(leapfrogs=2, hidden=4, head_factor=0.5)
    params = shaken(init(kernel, jax.random.key(1), None, 2, jnp.float64, 0.8))
    begin = start(density, jax.random.normal(jax.random.key(2), (50, 2), jnp.float64))

    def through(params):
        end, info = kernel.differentiable_transition(density, params, begin, KEY)
        return jnp.mean(end.logdensity), info

    propose = jax.jit(lambda params: kernel.differentiable_proposal(density, params, begin, KEY))
    proposal, acceptance, _ = propose(params)
    (value, info), gradient = jax.jit(jax.value_and_grad(through, has_aux=True))(params)
    assert 0.2 < np.mean(info.accepted) < 0.95
    gain, now = proposal.logdensity - begin.logdensity, acceptance

    def written_out(params):
        proposal, acceptance, _ = propose(params)
        held = jnp.where(info.accepted, proposal.logdensity, begin.logdensity)
        return jnp.mean(held + (acceptance - now) * gain)

    check_gradient(value, gradient, written_out, params, rtol=1e-6)


def tuned_chain(acceptance_gradient):
    """|E[log π*] - exact| on the Gaussian before and after tuning four transitions, and the record."""
    target, kernel = eg.targets.get("gaussian"), L2HMC(leapfrogs=3, acceptance_gradient=acceptance_gradient)
    p0 = DiagonalGaussian(jnp.zeros(2), jnp.full(2, 0.5 * np.log(3.0)))
    params = ChainParams(p0, init(kernel, jax.random.key(0), 4, 2, jnp.float32, 0.05))
    tuned, record, _ = maximise(
        Emlbo(kernel, 100, "full", "keep", False),
        target.density,
        params,
        KEY,
        iterations=150,
        learning_rate=0.01,
        numbers=(-np.inf,),
        progress=False,
    )
    run = jax.jit(lambda p: simulate(target.density.batched, kernel, p, jax.random.key(1), 5000)[2])
    truth = target.require_truth().expected_logdensity
    return [abs(float(run(p).expected_logdensity[-1]) - truth) for p in (params, tuned)], record


def test_an_ergodic_chain_of_it_can_be_tuned():
    """EMLBO's full gradient, from steps too short to arrive."""
    (before, after), record = tuned_chain(True)
    assert after < 0.1 * before
    assert record["step_size"].shape == record["momentum_variance"].shape == (150, 4)


@pytest.mark.slow
def test_tuning_needs_the_jacobians_gradient():
    """The paper's remark: with the decisions held the maps contract, and no move is accepted any more."""
    (before, after), record = tuned_chain(False)
    assert after > before
    assert np.mean(record["acceptance"][-1]) < 0.2 < 0.8 < np.mean(record["acceptance"][0])

"""The ways of sampling networks that the appendix's study compares, by label: each gives networks of every split."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodic.bnn.chain import from_network_start, long_chain
from ergodic.bnn.network import Data, RegressionNetwork
from ergodic.initial import DiagonalGaussian
from ergodic.methods.long_chain import LongChain
from ergodic.methods.sghmc import SGHMC
from ergodic.runtime.cores import over_cores
from ergodic.runtime.validation import positive_float, positive_int, settle
from ergodic.target import Density
from ergodic.tuning.elbo import climb

from .deep_ensemble import DeepEnsemble
from .minibatch_chain import MinibatchChain
from .network_nuts import LongRun
from .network_sghmc import NetworkSGHMC

Sampled = tuple[np.ndarray, dict[str, np.ndarray]]
"""Positions ``(splits, networks, dim)``, and curves worth keeping."""
LONG, ALL_ROWS, MINIBATCHES = "long chain", "HEI, all rows", "HEI, minibatches"
"""Our chain, whose steps are chosen by acceptance; the paper's setting, on all rows and on minibatches."""
VARIATIONAL = "HEI, all rows, variational P0"
CHANGES = (
    *("3 leapfrogs", "the paper's tuning", "not tuned", "P0 as wide as the appendix's", "variational P0"),
    *("no Metropolis step", "minibatches", "noise Gamma(6, 6)"),
)
"""What is changed of the long chain, one thing at a time."""
FORMER = {
    LONG: "HEI",
    ALL_ROWS: "HEI, appendix",
    MINIBATCHES: "HEI, appendix, minibatches",
    VARIATIONAL: "HEI, appendix, variational P0",
    **{f"{LONG}, {change}": f"HEI, {change}" for change in CHANGES},
}
"""Labels by which keys are made and older records go: those that the ways had at first."""
_AWAY = 100.0
"""No weight of a network that predicts anything is as large; the prior's standard deviation is 1."""
_UNTUNED = 5
"""Runs of the chain before tuning, for Figure 7."""
_LONGER = 50
"""By how much SGHMC is to be longer than its authors' runs, for about as much arithmetic as the long chain."""
_PARTS, _PAPERS_RATE = 19, 0.02
"""The appendix's minibatches, and the learning rate of the paper's tuning."""
_SPREAD = 0.1
"""How wide the long chain's P0 is, in units of the appendix's."""


@dataclass(frozen=True)
class Chain:
    """A chain from a network's start: ours, or with ``acceptance=None`` the paper's HEI, whose P0 stays as it is.

    Attributes:
      method: the chain; where it starts is the network's.
      spread: P0's standard deviations in units of the appendix's. None: the variational ones.
      minibatches: None for forces of all rows, or how many parts the rows are in.
      noise: another prior of the noise's precision than the network's own.
    """

    method: LongChain
    spread: float | None = 1.0
    minibatches: int | None = None
    noise: tuple[float, float] | None = None

    def sample(self, network: RegressionNetwork, data: Data, key: Array, networks: int) -> Sampled:
        """Tune, then draw; the chain's averages, tuned and untuned."""
        if self.noise is not None:
            network = replace(network, noise=self.noise)
        fit_key, sample_key = jax.random.split(key)
        family = network.family(data, minibatches=self.minibatches)
        method = from_network_start(self.method, network, self.spread)
        if self.minibatches is not None:
            method = MinibatchChain.like(method)
        draws = method.fit_family(family, fit_key).sample(sample_key, networks, chunk=networks)
        untuned = replace(method, iterations=None).fit_family(family, fit_key)
        before = untuned.sample(sample_key, min(networks, _UNTUNED))
        curves = {
            "tuned": draws.trace["expected_logdensity"],
            "untuned": before.trace["expected_logdensity"],
            "acceptance": draws.trace["acceptance"],
        }
        return draws.unconstrained, curves


@dataclass(frozen=True)
class StochasticGradients:
    """SGHMC with minibatches of rows."""

    method: NetworkSGHMC = field(default_factory=NetworkSGHMC)

    def sample(self, network: RegressionNetwork, data: Data, key: Array, networks: int) -> Sampled:
        """Run the chains of every split."""
        return self.method.sample(network, data, key, networks), {}


@dataclass(frozen=True)
class Members:
    """A deep ensemble; as many networks as it has members."""

    method: DeepEnsemble = field(default_factory=DeepEnsemble)

    def sample(self, network: RegressionNetwork, data: Data, key: Array, networks: int) -> Sampled:
        """Train the members of every split."""
        return self.method.sample(network, data, key), {}


@dataclass(frozen=True)
class Variational:
    """Mean-field variational inference from a random network, run for longer than as a chain's start.

    Attributes:
      iterations, learning_rate, particles: of Adam on the ELBO; the rate falls to a tenth.
      first_scale: standard deviations that it starts from.
    """

    iterations: int = 3000
    learning_rate: float = 0.05
    particles: int = 4
    first_scale: float = 0.05

    def __post_init__(self) -> None:
        settle(
            self,
            **dict.fromkeys(("iterations", "particles"), positive_int),
            **dict.fromkeys(("learning_rate", "first_scale"), positive_float),
        )

    def sample(self, network: RegressionNetwork, data: Data, key: Array, networks: int) -> Sampled:
        """Independent draws of the Gaussian."""
        keys = jax.random.split(key, data.y.shape[0])
        return np.asarray(over_cores(_variational, (self, network, networks), (), data, keys)), {}


def _variational(method: Variational, network: RegressionNetwork, networks: int, data: Data, key: Array) -> Array:
    fit_key, draw_key = jax.random.split(key)
    first_key, climb_key = jax.random.split(fit_key)
    scale = jnp.asarray(network.random_scale(), jnp.float32)
    mean = scale * jax.random.normal(first_key, (network.dim,))
    first = DiagonalGaussian(mean, jnp.full(network.dim, np.log(method.first_scale), mean.dtype))
    rates = method.learning_rate * jnp.linspace(1.0, 0.1, method.iterations)
    density = Density(lambda position: network.log_joint(position, data), network.layout)
    return climb(density, first, climb_key, rates, method.particles).sample(draw_key, networks)


Way = Chain | StochasticGradients | Members | Variational | LongRun
"""A way of sampling networks."""


def sampling(rows: int, scale: float = 1.0) -> dict[str, Way]:
    """Label to way of sampling given so many rows; ``scale`` shortens everything, for a smoke test.

    Those whose settings held-out rows choose come apart.
    """

    def short(count: int) -> int:
        return shortened(count, scale)

    ours = replace(long_chain(rows, scale), steps=short(50), iterations=short(25))
    paper = replace(ours, leapfrogs=3, iterations=short(190), particles=4, learning_rate=_PAPERS_RATE, acceptance=None)
    adapted = SGHMC(scale_adapted=True, chains=10, burn_in=short(3000), thin=short(100))
    longer = replace(adapted, burn_in=short(_LONGER * 3000), thin=short(_LONGER * 100))
    return {
        LONG: Chain(ours, _SPREAD),
        ALL_ROWS: Chain(paper),
        MINIBATCHES: Chain(paper, minibatches=_PARTS),
        VARIATIONAL: Chain(paper, None),
        "SGHMC, scale-adapted": StochasticGradients(NetworkSGHMC(adapted)),
        f"SGHMC, scale-adapted, {_LONGER} times as long": StochasticGradients(NetworkSGHMC(longer)),
        "mean-field VI": Variational(short(3000)),
    }


def ablations(rows: int, scale: float = 1.0) -> dict[str, Way]:
    """The long chain with one thing changed towards the appendix, or with another noise, by label."""
    plain = sampling(rows, scale)[LONG]
    assert isinstance(plain, Chain)
    ours = plain.method
    papers_tuning = replace(ours, acceptance=None, learning_rate=_PAPERS_RATE)
    changed = (
        Chain(replace(ours, leapfrogs=3), _SPREAD),
        Chain(papers_tuning, _SPREAD),
        Chain(replace(ours, iterations=1), _SPREAD),
        Chain(ours),
        Chain(ours, None),
        Chain(replace(ours, adjusted=False), _SPREAD),
        Chain(papers_tuning, _SPREAD, minibatches=_PARTS),
        Chain(ours, _SPREAD, noise=(6.0, 6.0)),
    )
    return {f"{LONG}, {change}": way for change, way in zip(CHANGES, changed, strict=True)}


def shortened(count: int, scale: float) -> int:
    """A number of iterations for a smoke test."""
    return max(2, round(scale * count))


def stochastic_grid(scale: float) -> list[StochasticGradients]:
    """Settings of Chen's update that held-out rows choose from."""
    burn_in, thin = shortened(3000, scale), shortened(100, scale)
    return [
        StochasticGradients(NetworkSGHMC(SGHMC(step, friction, chains=10, burn_in=burn_in, thin=thin)))
        for step in (1e-7, 3e-7, 1e-6, 1e-5)
        for friction in (0.01, 0.05, 0.2)
    ]


def ensemble_grid(scale: float) -> list[Members]:
    """How long an ensemble is trained: too long, and its noise fits the training rows."""
    return [Members(DeepEnsemble(iterations=shortened(count, scale))) for count in (50, 100, 200, 500, 1000, 3000)]


def finite(positions: np.ndarray) -> np.ndarray:
    """Networks that ran away predict nothing: they become networks of zeros, with noise 1."""
    return np.where(ran_away(positions)[..., None], 0.0, positions)


def ran_away(positions: np.ndarray) -> np.ndarray:
    """Of every network, whether a weight is not finite or too large for it to predict anything."""
    return ~np.all(np.abs(positions) < _AWAY, axis=-1)

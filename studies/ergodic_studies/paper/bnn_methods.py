"""The ways of sampling networks that the appendix's study compares, by label: each gives networks of every split."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import jax
import numpy as np
from jaxtyping import Array

from ergodic.bnn.chain import NetworkChain, long_chain
from ergodic.bnn.network import Data, Network
from ergodic.bnn.over_splits import over_splits
from ergodic.bnn.start import MeanField
from ergodic.methods.sghmc import SGHMC

from .deep_ensemble import Ensemble
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


@dataclass(frozen=True)
class Chain:
    """A tuned chain: the long one, or the appendix's.

    Attributes:
      noise: another prior of the noise's precision than the network's own.
    """

    method: NetworkChain = field(default_factory=NetworkChain)
    noise: tuple[float, float] | None = None

    def sample(self, network: Network, data: Data, key: Array, networks: int) -> Sampled:
        """Tune, then draw; the chain's averages, tuned and untuned."""
        if self.noise is not None:
            network = replace(network, noise=self.noise)
        fit_key, sample_key = jax.random.split(key)
        fitted = self.method.fit(network, data, fit_key)
        positions, trace = self.method.sample(network, data, fitted.params, sample_key, networks)
        untuned = self.method.untuned(network, data, fit_key)
        _, before = self.method.sample(network, data, untuned, sample_key, min(networks, _UNTUNED))
        curves = {
            "tuned": np.asarray(trace.expected_logdensity),
            "untuned": np.asarray(before.expected_logdensity),
            "acceptance": np.asarray(trace.acceptance),
            "training": fitted.record["expected"],
        }
        return positions, curves


@dataclass(frozen=True)
class StochasticGradients:
    """SGHMC with minibatches of rows."""

    method: NetworkSGHMC = field(default_factory=NetworkSGHMC)

    def sample(self, network: Network, data: Data, key: Array, networks: int) -> Sampled:
        """Run the chains of every split."""
        return self.method.sample(network, data, key, networks), {}


@dataclass(frozen=True)
class Members:
    """A deep ensemble; as many networks as it has members."""

    method: Ensemble = field(default_factory=Ensemble)

    def sample(self, network: Network, data: Data, key: Array, networks: int) -> Sampled:
        """Train the members of every split."""
        return self.method.sample(network, data, key), {}


@dataclass(frozen=True)
class Variational:
    """Mean-field variational inference, run for longer than as a start."""

    method: MeanField = field(default_factory=lambda: MeanField(iterations=3000, variances="variational"))

    def sample(self, network: Network, data: Data, key: Array, networks: int) -> Sampled:
        """Draws of every split's Gaussian."""
        keys = jax.random.split(key, data.y.shape[0])
        return np.asarray(over_splits(_variational, (self.method, network, networks), data, keys)), {}


def _variational(method: MeanField, network: Network, networks: int, data: Data, key: Array) -> Array:
    fit_key, draw_key = jax.random.split(key)
    return method.fit(network, data, fit_key).sample(draw_key, networks)


Way = Chain | StochasticGradients | Members | Variational | LongRun
"""A way of sampling networks."""


def sampling(rows: int, scale: float = 1.0) -> dict[str, Way]:
    """Label to way of sampling given so many rows; ``scale`` shortens everything, for a smoke test.

    Those whose settings held-out rows choose come apart.
    """

    def short(count: int) -> int:
        return shortened(count, scale)

    appendix = NetworkChain(steps=short(50), iterations=short(190), particles=4)
    long = replace(long_chain(rows, scale), steps=short(50), iterations=short(25))
    adapted = SGHMC(scale_adapted=True, chains=10, burn_in=short(3000), thin=short(100))
    longer = replace(adapted, burn_in=short(_LONGER * 3000), thin=short(_LONGER * 100))
    return {
        LONG: Chain(long),
        ALL_ROWS: Chain(appendix),
        MINIBATCHES: Chain(replace(appendix, minibatches=19)),
        VARIATIONAL: Chain(replace(appendix, initial=MeanField(variances="variational"))),
        "SGHMC, scale-adapted": StochasticGradients(NetworkSGHMC(adapted)),
        f"SGHMC, scale-adapted, {_LONGER} times as long": StochasticGradients(NetworkSGHMC(longer)),
        "mean-field VI": Variational(MeanField(iterations=short(3000), variances="variational")),
    }


def ablations(rows: int, scale: float = 1.0) -> dict[str, Way]:
    """The long chain with one thing changed towards the appendix, or with another noise, by label."""
    plain = sampling(rows, scale)[LONG]
    assert isinstance(plain, Chain)
    long = plain.method
    changed = (
        Chain(replace(long, leapfrogs=3)),
        Chain(replace(long, acceptance=None, learning_rate=0.02)),
        Chain(replace(long, iterations=1)),
        Chain(replace(long, initial=MeanField())),
        Chain(replace(long, initial=MeanField(variances="variational"))),
        Chain(replace(long, adjusted=False)),
        Chain(replace(long, minibatches=19, acceptance=None, learning_rate=0.02)),
        Chain(long, noise=(6.0, 6.0)),
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
    return [Members(Ensemble(iterations=shortened(count, scale))) for count in (50, 100, 200, 500, 1000, 3000)]


def finite(positions: np.ndarray) -> np.ndarray:
    """Networks that ran away predict nothing: they become networks of zeros, with noise 1."""
    return np.where(ran_away(positions)[..., None], 0.0, positions)


def ran_away(positions: np.ndarray) -> np.ndarray:
    """Of every network, whether a weight is not finite or too large for it to predict anything."""
    return ~np.all(np.abs(positions) < _AWAY, axis=-1)

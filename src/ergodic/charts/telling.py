"""What a sampler's coordinates are, in the model's own names: what drives what, and how much it helped."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .coordinates import Coordinates
from .driven import ACROSS, UNMOVED, DrivenLayer, features
from .fisher import Pairs, divergence

_REACH = 2.0
_STRETCH = 1.2
_SHIFT = 0.5


class ToldChart(NamedTuple):
    """A sampler's coordinates u, x = C(u), with what it takes to tell of them."""

    coordinates: Coordinates
    names: tuple[str, ...]
    positions: np.ndarray
    """Draws, at which it is judged, ``(n, dim)``; there may be none."""
    force: Callable[[np.ndarray], np.ndarray]
    """∂log π* at some positions."""

    def summary(self) -> str:
        """A line a driver, and the Fisher divergence of the draws before and after."""
        layers = [layer for layer in self.coordinates.on_host().layers if layer.kind != UNMOVED]
        if not layers:
            return "no chart: coordinates are the target's own"
        lines = [line for layer in layers for line in self._drivers(layer)]
        if len(self.positions):
            before, after = self.divergences()
            lines.append(f"Fisher divergence, per coordinate: {before:.3f} before, {after:.3f} after")
        return "\n".join(lines)

    def divergences(self) -> tuple[float, float]:
        """How far the draws' forces are from those of a Gaussian, mean log(1 + |f + z|²/d), in x and in u."""
        pairs = Pairs(self.positions.astype(np.float64), self.force(self.positions).astype(np.float64))
        inside = pairs
        for layer in self.coordinates.on_host().layers:
            inside = inside.behind(layer)
        return float(divergence(pairs, pairs).mean()), float(divergence(inside, inside).mean())

    def _drivers(self, layer: DrivenLayer) -> list[str]:
        """What each driver of a layer drives, from two spreads below its middle to two above."""
        lines, count = [], layer.drivers.shape[1]
        for at in np.flatnonzero(layer.drivers.any(axis=0)):
            v = np.zeros((2, count))
            v[:, at] = -_REACH, _REACH
            value, _ = features(v)
            s = value @ layer.scale
            stretch = np.exp(np.abs(s[1] - s[0]))
            low, high = v @ layer.slope + np.exp(s) * (value @ layer.mean)
            shift = np.abs(high - low) / self._spread(layer)
            driver = self.names[int(np.argmax(layer.drivers[:, at]))]
            scales, means = self._named(layer, stretch - 1, _STRETCH - 1), self._named(layer, shift, _SHIFT)
            parts = [f"the scale of {scales}, by up to {stretch.max():.1f}"] if scales else []
            parts += [f"the mean of {means}"] if means else []
            lines.append(f"{driver} drives {' and '.join(parts) or 'very little'}")
        return lines

    def _spread(self, layer: DrivenLayer) -> np.ndarray:
        """The draws' standard deviation in every direction of a layer; 1 where nothing is known."""
        if len(self.positions) < 2:
            return np.ones(len(self.names))
        along = self.positions
        if layer.kind == ACROSS and layer.directions is not None:
            along = along @ np.asarray(layer.directions.out).T
        spread = along.std(axis=0)
        return np.where(spread > 0, spread, 1)

    def _named(self, layer: DrivenLayer, amount: np.ndarray, least: float) -> str:
        """Names of the coordinates in directions that are driven by more than the least."""
        driven = amount > least
        if layer.kind == ACROSS and layer.directions is not None:
            share = np.abs(layer.directions.into)
            driven = (share[:, driven] > 0.5 * share.max(axis=0)[None, driven]).any(axis=1)
        return ", ".join(runs([name for name, one in zip(self.names, driven, strict=True) if one]))


def runs(names: list[str]) -> list[str]:
    """Names with neighbours in one: theta[0], theta[1], theta[2] are theta[0..2]."""
    made: list[tuple[str, int, int] | str] = []
    for name in names:
        found = re.fullmatch(r"(.*)\[(\d+)\]", name)
        if found is None:
            made.append(name)
            continue
        stem, index, last = found[1], int(found[2]), made[-1] if made else ""
        if isinstance(last, tuple) and last[0] == stem and last[2] == index - 1:
            made[-1] = (stem, last[1], index)
        else:
            made.append((stem, index, index))
    return [
        each if isinstance(each, str) else f"{each[0]}[{each[1]}{'' if each[1] == each[2] else f'..{each[2]}'}]"
        for each in made
    ]

"""What a sampler's coordinates are, in the model's own names: what drives what, and how much it helped."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .coordinates import Coordinates
from .driven import ACROSS, UNMOVED, DrivenLayer, features
from .fisher import Pairs, divergence
from .paired import PairedLayer

_AT = np.linspace(-2.0, 2.0, 5)
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
        own = self.coordinates.on_host().pairs
        if not layers and (own is None or not own.moving):
            return "no chart: coordinates are the target's own"
        lines, x = [] if own is None or not own.moving else [self._own(own)], self.positions
        x = own.inverse(x) if own is not None and len(x) else x
        for layer in layers:
            u = layer.inverse(x) if len(x) else x
            lines += self._drivers(layer, spread_along(layer, x), spread_along(layer, u))
            x = u
        if len(self.positions):
            before, after = self.divergences()
            lines.append(f"Fisher divergence, per coordinate: {before:.3f} before, {after:.3f} after")
        return "\n".join(lines)

    def divergences(self) -> tuple[float, float]:
        """How far the draws' forces are from those of a Gaussian, mean log(1 + |f + z|²/d), in x and in u."""
        pairs = Pairs(self.positions.astype(np.float64), self.force(self.positions).astype(np.float64))
        inside = pairs
        for layer in self.coordinates.on_host().each():
            inside = inside.behind(layer)
        return float(divergence(pairs, pairs).mean()), float(divergence(inside, inside).mean())

    def _own(self, layer: PairedLayer) -> str:
        """Who drives whom, where every coordinate has a driver of its own, in the order of the driven."""
        driven = np.flatnonzero(layer.moves())
        drivers = list(dict.fromkeys(self.names[int(j)] for j in layer.driver[driven]))
        both = (", ".join(runs(names)) for names in (drivers, [self.names[i] for i in driven]))
        besides = "".join(f", together with {self.names[k]}" for k in np.flatnonzero(layer.common))
        value, _ = features(_AT[[0, -1], None])
        s = value @ layer.scale[:, driven]
        most = np.exp(np.abs(s[1] - s[0]).max())
        return f"{' drive '.join(both)}, each its own{besides}: the scale, by up to {most:.1f}"

    def _drivers(self, layer: DrivenLayer, spread: np.ndarray, inside: np.ndarray) -> list[str]:
        """What each driver of a layer drives, from two spreads below its middle to two above.

        A mean counts by how far it moves, in units of the direction's spread or, where that is wider at one of these
        ends, of its conditional one: a wide end of a neck moves by chance.
        """
        lines, count = [], layer.drivers.shape[1]
        for at in np.flatnonzero(layer.drivers.any(axis=0)):
            v = np.zeros((len(_AT), count))
            v[:, at] = _AT
            value, _ = features(v)
            s = value @ layer.scale
            stretch, mean = np.exp(np.ptp(s, axis=0)), v @ layer.slope + np.exp(s) * (value @ layer.mean)
            shift = np.ptp(mean, axis=0) / np.maximum(spread, np.exp(s).max(axis=0) * inside)
            driver = self.names[int(np.argmax(layer.drivers[:, at]))]
            scales, means = self._named(layer, stretch - 1, _STRETCH - 1), self._named(layer, shift, _SHIFT)
            parts = [f"the scale of {scales}, by up to {stretch.max():.1f}"] if scales else []
            parts += [f"the mean of {means}"] if means else []
            lines.append(f"{driver} drives {' and '.join(parts) or 'very little'}")
        return lines

    def _named(self, layer: DrivenLayer, amount: np.ndarray, least: float) -> str:
        """Names of the coordinates in directions that are driven by more than the least."""
        driven = amount > least
        if layer.kind == ACROSS and layer.directions is not None:
            share = np.abs(layer.directions.into)
            driven = (share[:, driven] > 0.5 * share.max(axis=0)[None, driven]).any(axis=1)
        return ", ".join(runs([name for name, one in zip(self.names, driven, strict=True) if one]))


def spread_along(layer: DrivenLayer, x: np.ndarray) -> np.ndarray:
    """The standard deviation of positions in every direction of a layer; 1 where nothing is known."""
    along = x @ np.asarray(layer.directions.out).T if layer.kind == ACROSS and layer.directions is not None else x
    spread = along.std(axis=0) if len(x) > 1 else np.ones(x.shape[1])
    return np.where(spread > 0, spread, 1)


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

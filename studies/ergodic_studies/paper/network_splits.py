"""All splits of a table as one batch: standardised rows of equal shapes, a split each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from ergodic.bnn.network import Data, RegressionNetwork
from ergodic.bnn.prediction import predict, score
from ergodic.bnn.scaling import Scaling

from ..posteriors.uci_tables import Split, Table

_HELD = 0.1
"""Part of the training rows that choices are made on."""


class Splits(NamedTuple):
    """Raw rows, how each split is scaled, and the training rows as networks see them."""

    rows: tuple[Split, ...]
    scalings: tuple[Scaling, ...]
    data: Data

    @staticmethod
    def of(table: Table, numbers: Sequence[int], *, validation: bool = False) -> Splits:
        """Some splits of a table; for ``validation`` their test rows are taken out of their training rows."""
        rows = tuple(table.split(number) for number in numbers)
        if validation:
            rows = tuple(_held_out(split, number) for split, number in zip(rows, numbers, strict=True))
        scalings = tuple(Scaling.of(split.train_x, split.train_y) for split in rows)
        data = [scaling.data(split.train_x, split.train_y) for scaling, split in zip(scalings, rows, strict=True)]
        return Splits(rows, scalings, Data(*(jnp.stack(parts) for parts in zip(*data, strict=True))))

    def network(self, hidden: tuple[int, ...] = (50,)) -> RegressionNetwork:
        """An architecture for these rows."""
        return RegressionNetwork(int(self.data.x.shape[-1]), hidden)

    def scores(self, network: RegressionNetwork, positions: np.ndarray) -> list[dict[str, float]]:
        """Of sampled networks ``(splits, networks, dim)``: every split's test rows, in the target's own units."""
        return [
            score(predict(network, sampled, scaling, split.test_x), split.test_y)
            for sampled, scaling, split in zip(positions, self.scalings, self.rows, strict=True)
        ]


def _held_out(split: Split, number: int) -> Split:
    """Rows to choose by: a tenth of the training rows, the same ones whenever it is asked."""
    order = np.random.default_rng(number).permutation(len(split.train_y))
    held, kept = np.split(order, [round(_HELD * len(order))])
    return Split(split.train_x[kept], split.train_y[kept], split.train_x[held], split.train_y[held])

"""How the files at their public origins are turned into the files that are kept, by `Conversion`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ..runtime.data_registry import Conversion
from .splits import pbp_splits

PIXELS = 784


def copy(parts: Sequence[Path], out: Path) -> None:
    """Copy the one file there is, unchanged."""
    (part,) = parts
    shutil.copyfile(part, out)


def pack_rows(parts: Sequence[Path], out: Path) -> None:
    """Write Larochelle's three ``.amat`` files, whose rows are 784 digits 0 or 1 between blanks, as packed bits."""
    train, valid, test = map(_packed, parts)
    np.savez_compressed(out, train=train, valid=valid, test=test)


def _packed(part: Path) -> np.ndarray:
    characters = np.frombuffer(part.read_bytes(), np.uint8)
    if characters.size == 0 or characters.size % (2 * PIXELS):
        raise ValueError(f"{part.name} is not rows of {PIXELS} digits")
    digits = characters.reshape(-1, PIXELS, 2)[:, :, 0] - ord("0")
    if digits.max() > 1:
        raise ValueError(f"{part.name} is not of zeros and ones")
    return np.packbits(digits, axis=1)


def regression_table(parts: Sequence[Path], out: Path) -> None:
    """Write a table from its rows and the numbers of its feature and target columns, with the splits of PBP."""
    data, features, target = map(_numbers, parts)
    columns, (column,) = features.astype(int).ravel(), target.astype(int).ravel()
    if not {*columns, column} <= set(range(data.shape[1])):
        raise ValueError(f"{parts[0].name} has only {data.shape[1]} columns")
    train, test = pbp_splits(len(data))
    np.savez_compressed(
        out, X=data[:, columns], y=data[:, column], train_index=train.astype(np.int16), test_index=test.astype(np.int16)
    )


def _numbers(part: Path) -> np.ndarray:
    rows = np.array([line.split() for line in part.read_text().splitlines() if line.strip()], np.float64)
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise ValueError(f"{part.name} is not rows of numbers")
    return rows


CONVERSIONS: dict[Conversion, Callable[[Sequence[Path], Path], None]] = {
    Conversion.COPY: copy,
    Conversion.PACK_ROWS: pack_rows,
    Conversion.REGRESSION_TABLE: regression_table,
}
"""The function that writes a file from the downloaded parts, for each way of making one."""

"""The type of what charts map: ``(particles, dim)`` rows, of JAX inside a program, of NumPy between programs."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from jaxtyping import Array

Rows = TypeVar("Rows", Array, np.ndarray)

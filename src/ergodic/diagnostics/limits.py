"""Upper limits of how far P_T is from π, from the passes p after which pairs of chains met (`meeting.py`).

    TV(P_tT, π) <= E[max(0, p - t)]  =  P(p > t) E[p - t | p > t]
    W1(P_tT, π) <= E[Σ_{k>=t} |X_{k+1} - Y_k|]  =  P(p > t) E[Σ_{k>=t} ... | p > t]

Each of the two factors has half of what may go wrong. The first is limited by Clopper and Pearson, so that it holds
where hardly any pair, or none, takes so long. Nothing limits the mean of a law of which only some values were seen, so
the second has an assumption: pairs that have not met after s passes take further passes of a geometric law, with s the
largest up to t that enough pairs reached to tell its rate. Where pairs meet at a rate that falls, as do those of which
some are stuck, that is the rate at which late ones do.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

_ENOUGH = 20
"""Pairs that have not met after s passes, from which the rate is told at which such meet."""


def total_variation(passes: np.ndarray, t: int, confidence: float) -> float:
    """An upper limit of E[max(0, p - t)]."""
    often, wrong = _often(passes, t, confidence), (1 - confidence) / 2
    since = _told(passes, t)
    late = passes[passes > since] - since
    if not len(late):  # then at most so many of those that are late would still be
        return min(1.0, often / (1 - often))
    rate = float(special.betaincinv(len(late), late.sum() - len(late) + 1, wrong))
    return min(1.0, often / rate)


def wasserstein(passes: np.ndarray, apart: np.ndarray, t: int, confidence: float, strangers: float) -> float:
    """An upper limit of E[Σ_{k>=t} |X_{k+1} - Y_k|], of distances ``(passes, pairs)`` that are 0 once pairs have met.

    The mean sum of late pairs has the limit of the central limit theorem. Where a single pair is late, or none, each
    pass until they meet counts as the distance of two strangers.
    """
    since = _told(passes, t)
    sums = apart[since - 1 :, passes > since].sum(axis=0)
    if len(sums) < 2:
        return total_variation(passes, t, confidence) * strangers
    if not np.isfinite(sums).all():
        return math.inf
    above = float(special.ndtri(1 - (1 - confidence) / 2))
    return _often(passes, t, confidence) * float(sums.mean() + above * sums.std(ddof=1) / np.sqrt(len(sums)))


def _often(passes: np.ndarray, t: int, confidence: float) -> float:
    """An upper limit of P(p > t)."""
    n, above = len(passes), int((passes > t).sum())
    return 1.0 if above == n else float(special.betaincinv(above + 1, n - above, 1 - (1 - confidence) / 2))


def _told(passes: np.ndarray, t: int) -> int:
    """s: after how many passes those are late that tell how late they are."""
    return max([s for s in range(1, t + 1) if (passes > s).sum() >= _ENOUGH], default=1)

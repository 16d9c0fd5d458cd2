"""Statistical helpers for tests: z-scores of independent draws and two-sample tests, with their failure rates."""

import numpy as np
from scipy import stats


def z_of_mean(draws, truth):
    """(mean - truth) / (sd / sqrt n), exact by the central limit theorem when draws are independent."""
    draws = np.asarray(draws, np.float64)
    return (draws.mean(axis=0) - truth) / (draws.std(axis=0, ddof=1) / np.sqrt(len(draws)))


def two_sample_p(x, y, projections=5, seed=0):
    """Kolmogorov-Smirnov on coordinates and random projections, Bonferroni-corrected: the p-value of 'same law'."""
    rng = np.random.default_rng(seed)
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    directions = np.concatenate([np.eye(x.shape[1]), rng.normal(size=(projections, x.shape[1]))])
    smallest = min(stats.ks_2samp(x @ u, y @ u).pvalue for u in directions)
    return min(1.0, smallest * len(directions))

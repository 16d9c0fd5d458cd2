import numpy as np
import pytest

from ergodic.statistics.rhat import nested_rhat


def test_nested_rhat_of_forgotten_and_of_remembered_starts():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(200, 10))
    assert float(nested_rhat(values)) == pytest.approx(np.sqrt(1.1), abs=0.02)
    assert float(nested_rhat(values + 3 * rng.normal(size=(200, 1)))) == pytest.approx(np.sqrt(1 + 9.1), rel=0.15)
    assert np.isinf(nested_rhat(np.arange(3.0)[:, None] + np.zeros((3, 4))))

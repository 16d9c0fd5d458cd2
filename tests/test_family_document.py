"""docs/family.md runs as it is written."""

import re
from pathlib import Path

import numpy as np
import pytest

# Slow: two families and two single fits at full size. What the blocks call is tested in small in `test_family.py`,
# `tuning/test_refine.py` and `adapters/test_numpyro.py`.
pytestmark = pytest.mark.slow

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "family.md"


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """What the document's blocks leave behind, run in order in one session."""
    found: dict = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("document"))
        for block in re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.S):
            exec(compile(block, DOCUMENT.name, "exec"), found)
    return found


def test_folds_predict_better_than_a_coin(names):
    assert names["held_out"].sum() == 200 and names["again"].depth == names["samplers"].depth
    assert 200 * np.log(0.5) < names["log_predictive_density"] < 0


def test_ranks_of_simulated_parameters_are_uniform(names):
    """Kolmogorov and Smirnov's p-value of 100 ranks, twice: fails by chance with probability 2e-4."""
    from scipy.stats import kstest

    assert all(kstest(ranks, "uniform").pvalue > 1e-4 for ranks in names["ranks"].values())


def test_refining_is_no_longer(names):
    assert names["short"].depth <= names["sampler"].depth and set(names["draws"].position) == {"slope", "noise"}

"""The models that people write: their densities, their twins, and their committed truths."""

import json

import jax
import numpy as np
import pytest

import ergodic as eg
from ergodic.draws import constrained
from ergodic.initial import starting
from ergodic_studies.bench.model_truth import FOLDER, in_coordinates_of, truth_of
from ergodic_studies.models import constrained as constrained_models
from ergodic_studies.models import counts, dynamics, multilevel, necks, processes, regressions, series
from ergodic_studies.models.registry import ALL, MODELS, get

GROUPS = (multilevel, counts, constrained_models, regressions, series, processes, dynamics)
TRUTHS = sorted(file.stem for file in FOLDER.glob("*.json") if file.stem != "results")
MANY_ROWS = ("biglogit", "bigpoisson")


def test_names_are_unique_short_and_many():
    names = [name for group in GROUPS for name in group.MODELS]
    assert len(names) == len(set(names)) == len(MODELS) >= 24
    assert set(ALL) == {*MODELS, *necks.MODELS} and len(ALL) == len(MODELS) + len(necks.MODELS)
    assert all(name == name.lower() and len(name) <= 14 for name in ALL)
    assert all(model.title and model.dim > 0 for model in ALL.values())
    with pytest.raises(eg.ConfigError, match="model of the benchmark"):
        get("shools")


@pytest.mark.parametrize("name", ALL)
def test_densities_and_gradients_are_finite_where_chains_start(name):
    target = ALL[name].target(name)
    assert target.dim == ALL[name].dim and target.name == name
    value, force = jax.jit(target.density.batched)(starting(target).sample(jax.random.key(0), 4))
    assert np.isfinite(value).all() and np.isfinite(force).all()


@pytest.mark.parametrize("name", [name for name in ALL if name not in MANY_ROWS])
def test_data_are_the_same_every_time(name):
    one, other = (jax.tree_util.tree_leaves(ALL[name].make().args) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("name", [name for name, model in ALL.items() if model.twin is not None])
def test_a_twin_is_the_same_posterior(name, x64):
    """log π* of the twin and of the model differ by the Jacobian of the map between them alone.

    The maps are linear in what is not a scale, so that the Jacobian is Σ log scale, once per value that is moved.
    """
    model, problem = ALL[name], ALL[name].make()
    target, twin = model.target(name), eg.from_numpyro(model.twin, *problem.args)
    assert twin.dim == target.dim
    x = np.asarray(starting(twin).sample(jax.random.key(1), 3))
    to = in_coordinates_of(target, problem, constrained(twin, x))
    maps = jax.vmap(jax.jacfwd(lambda one: _moved(target, twin, problem, one)))(x)
    _, jacobian = np.linalg.slogdet(np.asarray(maps))
    mine, its = (np.asarray(jax.vmap(each.density.__call__)(at)) for each, at in ((target, to), (twin, x)))
    np.testing.assert_allclose(mine + jacobian, its, rtol=1e-8, atol=1e-6)


def _moved(target, twin, problem, one):
    values = jax.tree_util.tree_map(lambda leaf: leaf[None], twin.constrain(twin.layout.unravel(one)))
    return in_coordinates_of(target, problem, values, host=False)[0]


@pytest.mark.parametrize("name", TRUTHS)
def test_a_committed_truth_is_of_its_model_and_sound(name):
    truth, dim = truth_of(name), ALL[name].dim
    assert all(len(column) == dim for column in truth)
    assert truth.rhat.max() <= 1.01 and truth.ess.min() > 400 and (truth.sd > 0).all()
    document = json.loads((FOLDER / f"{name}.json").read_text())
    assert document["model"] == name and document["draws"] >= 2_000
    assert truth.moments(1).noise < 0.01 and truth.moments(2).noise < 0.01


def test_a_model_without_a_truth_has_none():
    assert truth_of("no-such-model") is None

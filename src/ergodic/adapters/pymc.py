"""A PyMC model as a `Target`. The one file that knows PyMC's API; PyMC is imported when first used.

PyMC turns its graphs into JAX functions (`pymc.sampling.jax.get_jaxified_graph`): the log-density over value variables,
which are unconstrained and carry the log-determinants of their maps; the constrained values and deterministics; the
log-likelihood of every observation; and, where PyTensor knows how to draw a distribution in JAX, the posterior
predictive. Draws of the prior are PyMC's own.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..initial import DiagonalGaussian
from ..model import Model
from ..runtime.errors import TargetError
from ..runtime.extras import require
from ..runtime.travel import Recipe
from ..target import Target
from .languages import default_dims, hinted, prior_draws, prior_from_draws, reason, traced, tracing

if TYPE_CHECKING:
    from pymc import Model as PyMCModel
    from pytensor.tensor import TensorVariable
else:
    PyMCModel = TensorVariable = object  # may not be installed

Position = dict[str, Array]
"""One unconstrained position: the arrays of PyMC's value variables, by their names."""


def from_pymc(model: object, *, name: str | None = None, seed: int = 0) -> Target:
    """The posterior of a PyMC model as a target.

    P0 starts at the location and spread of 1,000 draws of the prior. Draws come back as constrained values and
    deterministics under PyMC's names, with its dims and coords.

    Args:
      model: a `pymc.Model`; every free random variable must be continuous. Data are read now: `pymc.set_data` later
        needs a new target.
      name: what to call the target; the model's name when left out.
      seed: the seed of the draws from the prior.

    Returns:
      A target whose position is a dict of the model's unconstrained value variables.
    """
    pymc = _pymc()
    if not isinstance(model, pymc.Model):
        raise TargetError(f"from_pymc needs a pymc.Model; it was given a {type(model).__name__}")
    name = name or model.name or "pymc"
    if not model.free_RVs:
        raise TargetError(f"the PyMC model '{name}' has no free random variable; there is nothing to sample")
    discrete = [rv.name for rv in model.free_RVs if not np.issubdtype(rv.dtype, np.floating)]
    if discrete:
        raise TargetError(
            f"the PyMC model '{name}' has discrete free random variables, {', '.join(map(repr, discrete))}; "
            "sum them out, or make them continuous: positions are real"
        )
    dtype = np.dtype(jnp.result_type(float))
    with _in_jax(name, dtype):
        shapes = {value: point.shape for value, point in model.initial_point().items()}
        like = {value.name: jnp.zeros(shapes[value.name], dtype) for value in model.value_vars}
        logdensity = _Graph(model.value_vars, [model.logp()])
        values = pymc.util.get_default_varnames(model.unobserved_value_vars, include_transformed=False)
        constrain = _Graph(model.value_vars, values, [value.name for value in values])
        likelihood = _Graph(
            model.value_vars, model.logp(model.observed_RVs, sum=False), [rv.name for rv in model.observed_RVs]
        )
    target = Target(
        traced(lambda position: jnp.asarray(logdensity(position)[0], dtype), dtype),
        like=like,
        constrain=traced(constrain.by_name, dtype),
        name=name,
        prior=_prior(model, seed, dtype),
        hints=_hints(model, like, dtype),
        model=_known(model, like, constrain, likelihood, dtype),
    )
    target.recipe = Recipe.of(from_pymc, model, name=name, seed=seed)
    return target


class _Graph:
    """A PyTensor graph as a function of a position."""

    def __init__(self, inputs: Sequence[TensorVariable], outputs: Sequence[TensorVariable], names: Sequence[str] = ()):
        from pymc.sampling.jax import get_jaxified_graph

        self.inputs, self.names = [variable.name for variable in inputs], names
        self.function = get_jaxified_graph(inputs=list(inputs), outputs=list(outputs)) if outputs else tuple

    def __call__(self, position: Position) -> Sequence[Array | float]:
        return self.function(*(position[name] for name in self.inputs))

    def by_name(self, position: Position) -> dict[str, Array]:
        return {name: jnp.asarray(out) for name, out in zip(self.names, self(position), strict=True)}


def _known(model: PyMCModel, like: Position, constrain: _Graph, likelihood: _Graph, dtype: np.dtype) -> Model:
    """The model's names of dimensions, its data, its log-likelihood and its predictions."""
    from pymc.backends.arviz import coords_and_dims_for_inferencedata, find_constants, find_observations

    with _quiet():
        observed = {site: np.ma.getdata(value) for site, value in find_observations(model).items()}
        constant = {data: np.asarray(value) for data, value in find_constants(model).items()}
        coords, named = coords_and_dims_for_inferencedata(model)
    values = observed | constant | jax.eval_shape(traced(constrain.by_name, dtype), like)
    dims: dict[str, list[str]] = {}
    for variable in [*(rv.name for rv in model.unobserved_RVs), *observed, *constant]:
        given = named.get(variable, ())
        dims[variable] = default_dims(variable, len(values[variable].shape))
        dims[variable][: len(given)] = [new or old for new, old in zip(given, dims[variable], strict=False)]
    return Model(
        dims=dims,
        coords=coords,
        observed=observed,
        constant=constant,
        log_likelihood=traced(likelihood.by_name, dtype) if likelihood.names else None,
        predictive=_predictive(model, constrain, like, dtype) if likelihood.names else None,
    )


def _predictive(model: PyMCModel, constrain: _Graph, like: Position, dtype: np.dtype) -> Callable | None:
    """``predictive(position, key)``, or None where PyTensor cannot draw one of the distributions in JAX.

    Observed variables are drawn given the free ones. A random generator in the graph is in JAX a dict with its key.
    """
    from pymc.sampling.jax import get_jaxified_graph
    from pytensor.graph.replace import clone_replace
    from pytensor.graph.traversal import graph_inputs
    from pytensor.tensor.random.type import RandomType

    free = {rv: rv.type(name=rv.name) for rv in model.free_RVs}
    names = [rv.name for rv in model.observed_RVs]
    outputs = clone_replace(model.observed_RVs, free)
    generators = {v: v.type() for v in graph_inputs(outputs) if isinstance(v.type, RandomType)}
    outputs = clone_replace(outputs, generators)

    def predictive(position: Position, key: Array) -> dict[str, Array]:
        values = constrain.by_name(position)
        words = [jax.random.key_data(k) for k in jax.random.split(key, len(generators))]
        drawn = draw(*(values[rv.name] for rv in free), *({"jax_state": word} for word in words))
        return {name: jnp.asarray(value) for name, value in zip(names, drawn, strict=True)}

    try:
        with tracing(dtype), _quiet():
            draw = get_jaxified_graph(inputs=[*free.values(), *generators.values()], outputs=outputs)
            jax.eval_shape(predictive, like, jax.random.key(0))
    except Exception:  # whatever it is, draws do not depend on it
        return None
    return traced(predictive, dtype)


def _hints(model: PyMCModel, like: Position, dtype: np.dtype) -> list[tuple[int, int]]:
    """What may drive what, by the parameters of the model's distributions; nothing, where it cannot be told."""
    with suppress(Exception), tracing(dtype), _quiet():
        of = {
            model.rvs_to_values[rv].name: [p for p in rv.owner.op.dist_params(rv.owner) if "float" in p.dtype]
            for rv in model.free_RVs
        }
        graph = _Graph(model.value_vars, model.replace_rvs_by_values([p for each in of.values() for p in each]))

        def parameters(position: Position) -> dict[str, list[Array]]:
            values = iter(graph(position))
            return {name: [jnp.asarray(next(values), dtype) for _ in each] for name, each in of.items()}

        return hinted(parameters, like)
    return []


def _prior(model: PyMCModel, seed: int, dtype: np.dtype) -> DiagonalGaussian | None:
    """P0 from draws of the prior; None where PyMC cannot draw from it. Flat priors take no part."""
    import pymc
    from pymc.distributions.distribution import support_point
    from pytensor.graph.replace import clone_replace

    transforms = {rv: model.rvs_to_transforms[rv] for rv in model.free_RVs}
    flat = {rv for rv in transforms if isinstance(rv.owner.op, type(pymc.Flat.rv_op) | type(pymc.HalfFlat.rv_op))}
    with suppress(Exception), _quiet():
        moved = [rv if t is None else t.forward(rv, *rv.owner.inputs) for rv, t in transforms.items()]
        points = {rv: support_point(rv) for rv in flat}
        count = prior_draws(sum(point.size for point in model.initial_point().values()))
        drawn = pymc.draw(clone_replace(moved, points), draws=count, random_seed=seed, mode="FAST_COMPILE")
        names = {rv: model.rvs_to_values[rv].name for rv in transforms}
        return prior_from_draws(dict(zip(names.values(), drawn, strict=True)), {names[rv] for rv in flat}, dtype)
    return None


@contextmanager
def _in_jax(name: str, dtype: np.dtype) -> Iterator[None]:
    """Run PyMC and PyTensor under `tracing`, and raise their errors as one sentence."""
    try:
        with tracing(dtype), _quiet():
            yield
    except Exception as error:
        raise TargetError(
            f"PyMC could not turn the model '{name}' into JAX: {reason(error)}; "
            "change the part that it names, or write the log-density as an ergodic.Target"
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence PyTensor's warnings, of a missing BLAS and the like: a user cannot act on them here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _pymc() -> ModuleType:
    """PyMC, imported with care: its JAX module switches JAX to double precision and to 100 devices."""
    double, flags = jax.config.values["jax_enable_x64"], os.environ.get("XLA_FLAGS")
    try:
        with _quiet():
            pymc = require("pymc", "pymc", "from_pymc")
            require("pymc.sampling.jax", "pymc", "from_pymc")
    finally:
        if jax.config.values["jax_enable_x64"] != double:
            jax.config.update("jax_enable_x64", double)  # type: ignore[no-untyped-call]
        os.environ.pop("XLA_FLAGS", None)
        os.environ.update({} if flags is None else {"XLA_FLAGS": flags})
    return pymc

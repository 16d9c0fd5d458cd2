"""A NumPyro model as a `Target`. NumPyro is imported when first used.

NumPyro's own functions do the work: `potential_energy` is -log π* on unconstrained values, with the log-determinants of
the maps to each site's support, `constrain_fn` maps back and runs the model's deterministic sites, `log_likelihood` and
`Predictive` look at the observed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..model import Model
from ..runtime.errors import TargetError
from ..runtime.extras import require
from ..runtime.travel import Recipe
from ..target import Target
from .languages import check_labels, hinted, prior_draws, prior_from_draws, reason, traced, tracing
from .numpyro_sites import Message, constants, is_auxiliary, nesting, sites_of, trace
from .observed import check_values


def from_numpyro(
    model: object,
    *args: object,
    coords: Mapping[str, Sequence[object]] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    name: str | None = None,
    seed: int = 0,
    **kwargs: object,
) -> Target:
    """The posterior of a NumPyro model, ``model(*args, **kwargs)``, as a target.

    P0 starts at the location and spread of 1,000 draws of the prior. Draws come back as constrained values by site,
    deterministic sites among them. Where a model's own argument is called ``coords``, ``dims``, ``name`` or ``seed``,
    bind it first: ``from_numpyro(functools.partial(model, name=...), data)``.

    Args:
      model: a NumPyro model. Discrete latent sites are summed out, where funsor can; then draws have no log-likelihood,
        and predictions draw them anew. Handlers such as `reparam` may be around it.
      args: the model's arguments: data, as usual.
      coords: labels along a dimension, by its name: plates have theirs, other dimensions are ``site_dim_0``, ...
      dims: names of a site's dimensions, where plates do not name them.
      name: what to call the target; the model's name when left out.
      seed: the seed of the draws from the prior.
      kwargs: the model's keyword arguments.

    Returns:
      A target whose position is a dict of the latent sites' unconstrained values.
    """
    handlers = _handlers()
    if not callable(model):
        raise TargetError(f"from_numpyro needs a NumPyro model, a function; it was given a {type(model).__name__}")
    name = name or getattr(model, "__name__", type(model).__name__)
    dtype = np.dtype(jnp.result_type(float))
    bound = partial(model, *args, **kwargs)
    with tracing(dtype):
        try:
            sites = sites_of(bound)
        except TargetError as error:
            raise TargetError(f"the NumPyro model '{name}' {error}") from None
        except Exception as error:
            raise TargetError(
                f"the NumPyro model '{name}' raised {reason(error)}; check the arguments given to from_numpyro"
            ) from error
        if not any(site.kind == "latent" for site in sites.values()):
            raise TargetError(f"the NumPyro model '{name}' has no latent site; there is nothing to sample")
        observed, fixed = jax.device_get(jax.jit(partial(_known, bound))())
        try:
            for site, value in observed.items():
                check_values(site, value, sites[site].values)
        except TargetError as error:
            raise TargetError(f"the NumPyro model '{name}' {error}") from None
    constant = constants(model, args, kwargs, observed, sites)
    known = {site: found for site, found in sites.items() if found.kind != "summed"}
    labels = {site: found.dims for site, found in known.items()} | {site: tuple(d) for site, d in (dims or {}).items()}
    known_shapes = {site: found.shape for site, found in sites.items()}
    check_labels(labels, coords or {}, known_shapes | {data: value.shape for data, value in constant.items()})
    closed = handlers.substitute(bound, data=fixed)
    improper = {site for site, found in sites.items() if found.improper}
    summed = [site for site, found in sites.items() if found.kind == "summed"]
    with tracing(dtype):
        enumerated = _enumerated(closed, summed) if summed else None
        shapes = jax.eval_shape(partial(_prior_draw, closed), jax.random.key(0))
        keys = jax.random.split(jax.random.key(seed), prior_draws(sum(leaf.size for leaf in shapes.values())))
        prior = jax.device_get(jax.jit(jax.vmap(partial(_prior_draw, closed)))(keys))
        like = {site: jnp.zeros(leaf.shape, dtype) for site, leaf in shapes.items()}
        random = _random(closed, {site: jnp.asarray(draws[0]) for site, draws in prior.items()}) if summed else ()
        hints: list[tuple[int, int]] = []
        with suppress(Exception):  # a model that cannot be told is fitted without
            middle = {site: jnp.asarray(np.median(draws, axis=0), dtype) for site, draws in prior.items()}
            hints = hinted(partial(_parameters, closed), middle)
    target = Target(
        traced(partial(_logdensity, enumerated or closed, dtype, bool(summed)), dtype),
        like=like,
        constrain=traced(partial(_constrain, closed, random), dtype),
        name=name,
        prior=prior_from_draws(prior, improper, dtype),
        hints=hints,
        model=Model(
            dims={site: names for site, names in labels.items() if site not in random},
            coords=dict(coords or {}),
            observed=observed,
            constant=constant,
            log_likelihood=traced(partial(_log_likelihood, closed, tuple(observed)), dtype)
            if observed and not summed
            else None,
            predictive=traced(partial(_predictive, closed, tuple(observed)), dtype) if observed else None,
            prior=None if improper else traced(partial(_prior_draw, closed), dtype),
            joint=traced(partial(_joint, closed, summed, dtype), dtype) if observed else None,
        ),
    )
    settings = {"coords": coords, "dims": dims, "name": name, "seed": seed}
    target.recipe = Recipe.of(from_numpyro, model, *args, **settings, **kwargs)
    return target


def _known(bound: Callable) -> tuple[dict[str, Array], dict[str, Array]]:
    """Values that do not depend on latent sites: observed data, and parameters such as those of `numpyro.param`."""
    sites = trace(bound, jax.random.key(0))
    observed = {k: v for k, v in sites.items() if v["type"] == "sample" and v["is_observed"] and not is_auxiliary(v)}
    fixed = {name: site["value"] for name, site in sites.items() if site["type"] in ("param", "mutable")}
    return {name: jnp.asarray(site["value"]) for name, site in observed.items()}, fixed


def _prior_draw(closed: Callable, key: Array) -> dict[str, Array]:
    """One draw of the prior, unconstrained, by latent site."""
    from numpyro.distributions import biject_to

    return {
        name: biject_to(site["fn"].support).inv(site["value"])
        for name, site in trace(closed, key).items()
        if site["type"] == "sample" and not site["is_observed"] and not site["fn"].support.is_discrete
    }


def _parameters(closed: Callable, position: dict[str, Array]) -> dict[str, list[Array]]:
    """The parameters of every latent site's distribution, at an unconstrained position."""
    latent = _latent(closed, position)
    sites = _handlers().trace(_handlers().substitute(_seeded(closed), data=latent)).get_trace()
    return {name: [leaf for leaf in jax.tree.leaves(sites[name]["fn"]) if _real(leaf)] for name in position}


def _real(leaf: object) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jnp.floating)


def _seeded(closed: Callable) -> Callable:
    """The model with a fixed key for `numpyro.prng_key`; made anew for each use, since the handler changes."""
    return _handlers().seed(closed, 0)


def _enumerated(closed: Callable, summed: Sequence[str]) -> Callable:
    """The model with its discrete latent sites marked, so that funsor sums them out of its density."""
    require("funsor", "numpyro", f"summing out the discrete latent site '{summed[0]}'")
    from numpyro.contrib.funsor import config_enumerate, enum

    return enum(config_enumerate(_seeded(closed)), -1 - nesting(closed))


def _random(closed: Callable, position: dict[str, Array]) -> tuple[str, ...]:
    """Deterministic sites that depend on discrete ones, which draws do not have: other keys give other values."""
    from numpyro.infer.util import constrain_fn

    def values(key: Array) -> dict[str, Array]:
        return constrain_fn(_handlers().seed(closed, key), (), {}, position, return_deterministic=True)

    found = jax.jit(jax.vmap(values))(jax.random.split(jax.random.key(0), 8))
    return tuple(name for name, each in found.items() if bool(jnp.any(each != each[:1])))


def _logdensity(closed: Callable, dtype: np.dtype, enum: bool, position: dict[str, Array]) -> Array:
    from numpyro.infer.util import potential_energy

    model = closed if enum else _seeded(closed)
    return -jnp.asarray(potential_energy(model, (), {}, position, enum=enum), dtype)


def _joint(
    closed: Callable, summed: Sequence[str], dtype: np.dtype, position: dict[str, Array], data: dict[str, Array]
) -> Array:
    """log π* with other data in the observed sites."""
    from numpyro import handlers

    class Observed(handlers.Messenger):
        """Other values for observed sites."""

        def process_message(self, msg: Message) -> None:
            if msg["type"] == "sample" and msg["name"] in data:
                msg["value"], msg["is_observed"] = data[msg["name"]], True

    with Observed():
        model = _enumerated(closed, summed) if summed else closed
        return _logdensity(model, dtype, bool(summed), position)


def _latent(closed: Callable, position: dict[str, Array]) -> dict[str, Array]:
    """The constrained values of the latent sites."""
    from numpyro.infer.util import constrain_fn

    return constrain_fn(_seeded(closed), (), {}, position)


def _constrain(closed: Callable, left_out: Sequence[str], position: dict[str, Array]) -> dict[str, Array]:
    """The constrained values of latent and deterministic sites, without some of the latter."""
    from numpyro.infer.util import constrain_fn

    values = constrain_fn(_seeded(closed), (), {}, position, return_deterministic=True)
    return {name: jnp.asarray(value) for name, value in values.items() if name not in left_out}


def _log_likelihood(closed: Callable, observed: tuple[str, ...], position: dict[str, Array]) -> dict[str, Array]:
    from numpyro.infer import log_likelihood

    latent = _latent(closed, position)
    values = log_likelihood(_seeded(closed), latent, batch_ndims=0)
    return {name: values[name] for name in observed}


def _predictive(
    closed: Callable, observed: tuple[str, ...], position: dict[str, Array], key: Array
) -> dict[str, Array]:
    from numpyro import handlers
    from numpyro.infer import Predictive

    class Expanded(handlers.Messenger):
        """As many draws as there are data, also where one scalar distribution stands for a whole vector of them."""

        def process_message(self, msg: Message) -> None:
            if msg["type"] == "sample" and msg["is_observed"] and not is_auxiliary(msg):
                shape = jnp.shape(msg["value"])
                batch = shape[: len(shape) - msg["fn"].event_dim]
                msg["fn"] = msg["fn"].expand(jax.lax.broadcast_shapes(batch, msg["fn"].batch_shape))

    latent = _latent(closed, position)
    free = handlers.uncondition(Expanded(closed))
    return Predictive(free, latent, batch_ndims=0, return_sites=list(observed))(key)


def _handlers() -> ModuleType:
    """The module ``numpyro.handlers``, or an error that says how to install NumPyro."""
    return require("numpyro", "numpyro", "from_numpyro").handlers

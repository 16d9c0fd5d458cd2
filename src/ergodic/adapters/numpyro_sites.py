"""The sites of a NumPyro model: what is latent, observed or deterministic, of what shape, along which dimensions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..runtime.errors import TargetError
from .languages import default_dims
from .observed import must_be, warn_of_broadcast

Message = dict[str, Any]
"""A site as NumPyro's handlers pass it on: a dict with ``type``, ``fn``, ``value`` and more."""


class Site(NamedTuple):
    """What is known of a site without computing anything."""

    kind: str
    """``"latent"``, ``"observed"``, ``"deterministic"``, or ``"summed"``: latent and discrete."""
    shape: tuple[int, ...]
    """The shape of its constrained value."""
    dims: tuple[str, ...]
    """One name per dimension."""
    improper: bool = False
    """Whether its prior cannot be drawn from."""
    values: str | None = None
    """What observed values must be, as `must_be` says it."""


def sites_of(model: Callable) -> dict[str, Site]:
    """A model's sites in its own order; a site that cannot be sampled is refused by name."""
    found: dict[str, Site] = {}

    def look(key: Array) -> None:
        for name, site in trace(model, key).items():
            if site["type"] == "plate" and site["args"][1] not in (None, site["args"][0]):
                raise TargetError(f"takes a random part of plate '{name}'; give it all of the data")
            if site["type"] == "deterministic":
                found[name] = Site("deterministic", jnp.shape(site["value"]), _dims(name, site, None))
            elif site["type"] == "sample" and not is_auxiliary(site):
                found[name] = _sampled(name, site, key)

    jax.eval_shape(look, jax.random.key(0))
    return found


def trace(model: Callable, key: Array) -> dict[str, Message]:
    """The sites of one run of the model, by name.

    Latent sites are drawn from the prior, or uniformly from (-2, 2) where the prior cannot be drawn from.
    """
    from numpyro import handlers
    from numpyro.infer import init_to_sample

    return handlers.trace(handlers.substitute(handlers.seed(model, key), substitute_fn=init_to_sample)).get_trace()


def nesting(model: Callable) -> int:
    """How many dimensions from the right the model's plates take: those left of them are free for enumeration."""
    deepest = 0

    def look(key: Array) -> None:
        nonlocal deepest
        frames = (frame for site in trace(model, key).values() for frame in site.get("cond_indep_stack", ()))
        deepest = max((-frame.dim for frame in frames), default=0)

    jax.eval_shape(look, jax.random.key(0))
    return deepest


def is_auxiliary(site: Message) -> bool:
    """Whether a site is there for its log-density alone, as `numpyro.factor` makes them."""
    return bool(site["infer"].get("is_auxiliary", False))


def constants(
    model: Callable,
    args: tuple,
    kwargs: dict[str, object],
    observed: Mapping[str, np.ndarray],
    sites: Mapping[str, Site],
) -> dict[str, np.ndarray]:
    """Arrays among the model's arguments that are not observed data, by the argument's name."""
    arguments: dict[str, object] = {}
    with suppress(TypeError, ValueError):  # a callable without a signature
        bound = inspect.signature(model).bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = bound.arguments
    taken = set(sites).union(*(site.dims for site in sites.values()))
    arrays = {
        name: np.asarray(value)
        for name, value in (arguments | kwargs).items()
        if isinstance(value, np.ndarray | jax.Array) and np.ndim(value) > 0 and name not in taken
    }
    return {
        name: array
        for name, array in arrays.items()
        if array.dtype.kind in "biuf" and not any(_same(array, data) for data in observed.values())
    }


def _sampled(name: str, site: Message, key: Array) -> Site:
    from numpyro.distributions import Delta, biject_to
    from numpyro.infer.util import helpful_support_errors

    fn, shape = site["fn"], jnp.shape(site["value"])
    dims = _dims(name, site, fn.event_dim)
    if site["is_observed"]:
        warn_of_broadcast(name, site)
        return Site("observed", shape, dims, values=must_be(fn))
    if fn.support.is_discrete:
        if not fn.has_enumerate_support:
            raise TargetError(
                f"has a discrete latent site, '{name}', of a {type(fn).__name__}, which has too many values to be "
                "summed over: make it continuous, since positions are real"
            )
        return Site("summed", shape, dims)
    if isinstance(fn, Delta):
        raise TargetError(f"samples '{name}' from a Delta; use numpyro.deterministic")
    with helpful_support_errors(site):
        biject_to(fn.support)
    try:
        fn.sample(key)
    except NotImplementedError:
        return Site("latent", shape, dims, improper=True)
    return Site("latent", shape, dims)


def _dims(name: str, site: Message, event_dim: int | None) -> tuple[str, ...]:
    """Names of a site's dimensions: its plates', its ``infer={"event_dims": [...]}``, and ``site_dim_i``.

    A plate's dimension counts from the right of the batch dimensions, those left of the event's. How many of the latter
    a deterministic site has is not said: the fewest batch dimensions with which every plate finds its size.
    """
    shape = jnp.shape(site["value"])
    frames = site["cond_indep_stack"]
    names = default_dims(name, len(shape))
    fewest = max((-frame.dim for frame in frames), default=0)
    batches = range(fewest, len(shape) + 1) if event_dim is None else [len(shape) - event_dim]
    for batch in batches:
        axes = {frame.name: batch + frame.dim for frame in frames}
        if all(axes[frame.name] >= 0 and shape[axes[frame.name]] == frame.size for frame in frames):
            for plate, axis in axes.items():
                names[axis] = plate
            break
    events = list(site.get("infer", {}).get("event_dims", []))
    return tuple(names[: len(names) - len(events)] + events)


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and np.allclose(one, other, rtol=1e-6, atol=0.0, equal_nan=True)

"""What to sample: an unnormalised log-density over a pytree of unconstrained real values.

A `Target` is declared once with a function and a ``like`` (a position of the right structure, shapes and dtype):

    target = Target(lambda x: -0.5 * jnp.sum(x["a"] ** 2) - x["b"] ** 2, like={"a": jnp.zeros(3), "b": 0.0})

Everything below this file works on ensembles of flat vectors, ``(particles, dim)``; `Layout` is the map between the two
and `Density` is log π* on flat vectors, hashable so that compiled programs can be reused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from .charts.coordinates import Coordinates
from .initial import DiagonalGaussian
from .kernels.ensemble import BatchedDensity
from .kernels.pulled_back import pulled_back
from .model import Model
from .runtime import html
from .runtime.errors import TargetError
from .runtime.programs import Bare, Carrying
from .runtime.travel import Recipe, Travels
from .runtime.validation import finite_float, warn_if_narrowed
from .runtime.work import Traced, Work
from .truth import Reference, Truth

__all__ = ["Density", "Layout", "LogDensity", "Model", "Reference", "Target", "Truth", "leaf_name"]

LogDensity = Callable[..., Array]
"""log π* of a position, and of data where the target has any."""


def leaf_name(path: tuple[object, ...]) -> str:
    """What a leaf at this path of a pytree is called: ``a.b``, or ``x`` for a bare array."""
    return jax.tree_util.keystr(path, simple=True, separator=".") or "x"


@dataclass(frozen=True)
class Layout:
    """How a pytree position lies in a flat vector of ``dim`` values, leaves one after the other, each row-major."""

    treedef: jax.tree_util.PyTreeDef
    shapes: tuple[tuple[int, ...], ...]
    paths: tuple[str, ...]
    dtype: np.dtype

    @staticmethod
    def of(like: PyTree) -> Layout:
        """Read the layout from an example position; every leaf must be real, and all of one floating dtype."""
        leaves, treedef = jax.tree_util.tree_flatten_with_path(like)
        if not leaves:
            raise TargetError("`like` has no array in it; give a position such as like=jnp.zeros(2)")
        paths, arrays, strong = [], [], set()
        for path, leaf in leaves:
            name = leaf_name(path)
            try:
                array = jnp.asarray(leaf)
            except (TypeError, ValueError) as error:
                raise TargetError(f"`like` leaf '{name}' is a {type(leaf).__name__}, not an array") from error
            if not jnp.issubdtype(array.dtype, jnp.floating):
                raise TargetError(
                    f"`like` leaf '{name}' has dtype {array.dtype}; positions are real: use a floating dtype "
                    "(for example jnp.zeros(2) or 0.0)"
                )
            paths.append(name)
            arrays.append(array)
            if not isinstance(leaf, float):
                strong.add(array.dtype)
            warn_if_narrowed(leaf, array, f"`like` leaf '{name}'")
        if len(set(paths)) < len(paths):
            twice = next(path for path in paths if paths.count(path) > 1)
            raise TargetError(f"two leaves of `like` are both called '{twice}'; rename one")
        if len(strong) > 1:
            seen = ", ".join(f"{p}: {a.dtype}" for p, a in zip(paths, arrays, strict=True))
            raise TargetError(f"`like` mixes dtypes ({seen}); give every leaf the same one")
        layout = Layout(
            treedef,
            tuple(a.shape for a in arrays),
            tuple(paths),
            np.dtype((strong or {arrays[0].dtype}).pop()),
        )
        if layout.dim == 0:
            raise TargetError("`like` holds no values (every leaf is empty); there is nothing to sample")
        return layout

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values in each leaf."""
        return tuple(math.prod(shape) for shape in self.shapes)

    @property
    def dim(self) -> int:
        """The dimension d of the flat vector."""
        return sum(self.sizes)

    def names(self) -> tuple[str, ...]:
        """One name a flat coordinate: ``a[0]``, ``a[1]``, ``b``."""
        return tuple(
            path + ("" if shape == () else "[" + ",".join(map(str, index)) + "]")
            for path, shape in zip(self.paths, self.shapes, strict=True)
            for index in np.ndindex(*shape)
        )

    def unravel(self, flat: PyTree) -> PyTree:
        """Cut ``(..., dim)`` into a pytree whose leaves keep the leading axes; NumPy in, NumPy out."""
        leaves, at = [], 0
        for shape, size in zip(self.shapes, self.sizes, strict=True):
            leaves.append(flat[..., at : at + size].reshape((*flat.shape[:-1], *shape)))
            at += size
        return jax.tree_util.tree_unflatten(self.treedef, leaves)

    def ravel(self, position: PyTree) -> Float[Array, "dim"]:
        """Lay one pytree position out as a flat vector."""
        leaves = jax.tree_util.tree_leaves(position)
        return jnp.concatenate([jnp.asarray(leaf, self.dtype).reshape(-1) for leaf in leaves])

    def __str__(self) -> str:
        return ", ".join(
            f"{path}: {self.dtype}[{','.join(map(str, shape))}]"
            for path, shape in zip(self.paths, self.shapes, strict=True)
        )


@dataclass(frozen=True, eq=False)
class Density(Carrying):
    """log π* on flat vectors. Programs are compiled for one of these: a new Target is compiled anew.

    (Not for its function: a function may read data that has changed since, as in a notebook.) Where it has ``data``,
    functions get them as their second argument, and programs are compiled for any data of these shapes (`Carrying`).
    """

    function: LogDensity
    layout: Layout
    minibatch: Callable[..., Array] | None = None
    data: PyTree = None
    bare: Bare[Work] = field(default_factory=Bare, repr=False)

    def __call__(self, position: Float[Array, "dim"]) -> Float[Array, ""]:
        """log π*(x) of one flat position."""
        return self.function(self.layout.unravel(position), *self._given)

    @property
    def _given(self) -> tuple[PyTree, ...]:
        return () if self.data is None else (self.data,)

    def holding(self, data: PyTree) -> Density:
        """The same function with other data."""
        return replace(self, data=data)

    def batched(
        self, positions: Float[Array, "particles dim"]
    ) -> tuple[Float[Array, "particles"], Float[Array, "particles dim"]]:
        """log π* and the force ∂ log π* of a whole ensemble, in one evaluation."""
        return jax.vmap(jax.value_and_grad(self.__call__))(positions)

    @property
    def traced(self) -> Traced:
        """log π* and the force of one position, traced once, for programs that do not differentiate them further."""
        kept = vars(
            self
        )  # not a cached_property: its lock, one for all, and that of compiling would wait for each other
        if "_traced" not in kept:
            kept["_traced"] = Traced.of(jax.value_and_grad(self.__call__), (self.layout.dim,), self.layout.dtype)
        return kept["_traced"]

    @property
    def work(self) -> Work:
        """What one evaluation of log π* and its force does; data of the same shapes do not change it."""
        return self.bare.known(self.data, lambda: self.traced.work)

    def of_members(self, data: PyTree, coordinates: Coordinates) -> BatchedDensity:
        """In coordinates, as many positions at a time as suits a processor; a family has data, a member needs none."""
        return pulled_back(self.traced.over, coordinates)

    def estimated(self, position: Float[Array, "dim"], key: Array) -> Float[Array, ""]:
        """An unbiased estimate of log π* of one flat position from a random minibatch; exact without minibatches."""
        if self.minibatch is None:
            return self(position)
        return self.minibatch(self.layout.unravel(position), *self._given, key)

    def stochastic_force(self, positions: Float[Array, "particles dim"], key: Array) -> Float[Array, "particles dim"]:
        """An unbiased estimate of the force from a own random minibatch, per particle; exact without minibatches."""
        if self.minibatch is None:
            return self.batched(positions)[1]
        return jax.vmap(jax.grad(self.estimated))(positions, jax.random.split(key, positions.shape[0]))


class Target(Travels):
    """What to sample.

    Args:
      logdensity: maps one position (a pytree shaped as ``like``) to the scalar log π*(x), up to a constant.
      like: a position: gives structure, shapes and dtype. Its values are not used.
      data: a pytree of arrays, which ``logdensity(position, data)`` is given: arguments of programs, not constants in
        them, so that `with_data` compiles nothing for other data of the same shapes. They may be sharded over devices.
      constrain: maps one position to the pytree of values the user wants to see; the identity when left out.
      names: one name a flat coordinate; made from the pytree's paths when left out.
      name: what to call the target in tables and files.
      truth: a `Truth`, or a function that computes it when first asked for.
      reference: what a long run says, where there is no truth; a `Reference`, or a function likewise.
      prior: the prior's mean and spread on flat unconstrained positions, where P0 then starts.
      prior_entropy: entropy of the prior in nats, when only that is known; methods that follow the paper start P0
        with it.
      model: dimension names, observed data and predictions, for ArviZ.
      minibatch: ``minibatch(position, key)``, with data ``minibatch(position, data, key)``, an unbiased estimate of
        log π*(x) from a random part of the data, for methods that take stochastic gradients.
      hints: pairs (j, i) of flat coordinates, where j may drive the scale or the mean of i, as a model's text says; a
        chart races them with what it sees, so that a wrong one does no harm.
    """

    def __init__(
        self,
        logdensity: LogDensity,
        like: PyTree,
        *,
        data: PyTree = None,
        constrain: Callable[[PyTree], PyTree] | None = None,
        names: Sequence[str] | None = None,
        name: str | None = None,
        truth: Truth | Callable[[], Truth] | None = None,
        reference: Reference | Callable[[], Reference] | None = None,
        prior: DiagonalGaussian | None = None,
        prior_entropy: float | None = None,
        model: Model | None = None,
        minibatch: Callable[..., Array] | None = None,
        hints: Sequence[tuple[int, int]] | np.ndarray = (),
    ):
        if not callable(logdensity):
            raise TargetError(f"logdensity must be a function of a position, not a {type(logdensity).__name__}")
        self.layout = Layout.of(like)
        self.density = Density(logdensity, self.layout, minibatch, as_data(data))
        self.constrain = constrain
        self.names = self.layout.names() if names is None else tuple(names)
        if len(self.names) != self.dim:
            raise TargetError(f"{len(self.names)} names for {self.dim} coordinates; give one per flat coordinate")
        self.name = name or str(getattr(logdensity, "__name__", type(logdensity).__name__))
        self.prior_entropy = None if prior_entropy is None else finite_float(prior_entropy, "prior_entropy")
        if prior is not None and (prior.mean.shape != (self.dim,) or prior.log_scale.shape != (self.dim,)):
            raise TargetError(
                f"the prior's mean and log_scale must have {self.dim} values, one per flat coordinate, "
                f"not {prior.mean.shape} and {prior.log_scale.shape}"
            )
        self.prior = prior
        self.model = Model() if model is None else model
        self.hints = np.asarray(hints, int).reshape(-1, 2)
        if self.hints.size and (self.hints.min() < 0 or self.hints.max() >= self.dim):
            raise TargetError(f"hints name coordinates that do not exist; there are {self.dim}, the first is 0")
        self._truth = truth
        self._reference = reference
        _check_scalar(_abstract(self.density, self.layout, "logdensity"), "logdensity", self.dtype)
        if constrain is not None:
            _check_constrain(constrain, self.layout)
        if minibatch is not None:
            key, given = jax.random.key(0), () if data is None else (self.data,)
            estimate = _abstract(lambda x: minibatch(self.layout.unravel(x), *given, key), self.layout, "minibatch")
            _check_scalar(estimate, "minibatch", self.dtype)

    @property
    def dim(self) -> int:
        """The number of unconstrained real values in a position."""
        return self.layout.dim

    @property
    def dtype(self) -> np.dtype:
        """The floating dtype of positions, as ``like`` gave it."""
        return self.layout.dtype

    @property
    def data(self) -> PyTree:
        """The data that the log-density is given; None where it has none, or has closed over them."""
        return self.density.data

    def with_data(self, data: PyTree, *, name: str | None = None) -> Target:
        """The same target with other data. Where their shapes are the same, nothing is compiled for it.

        What was known about the old one, its truth, reference and model, is left out. It may have a name of its own.
        """
        if self.data is None:
            raise TargetError(
                f"'{self.name}' has no data to exchange: make it by eg.Target(logdensity, like, data=...)"
            )
        data = as_data(data)
        wanted, found = (str(jax.tree_util.tree_structure(each)) for each in (self.data, data))
        if wanted != found:
            raise TargetError(f"the data of '{self.name}' are {wanted}, where a * is an array; not {found}")
        name, like, density = name or self.name, self.layout.unravel(np.zeros(self.dim, self.dtype)), self.density
        other = self.another(
            Recipe.of(Target, density.function, like, data=data, constrain=self.constrain, names=self.names, name=name,
                      prior=self.prior, prior_entropy=self.prior_entropy, minibatch=density.minibatch, hints=self.hints)
        )  # fmt: skip
        other.name, other.density, other.model = name, density.holding(data), Model()
        other._truth = other._reference = None
        _check_scalar(_abstract(other.density, self.layout, "logdensity"), "logdensity", self.dtype)
        return other

    @property
    def truth(self) -> Truth | None:
        """What is known exactly, or None."""
        if callable(self._truth) and not isinstance(self._truth, Truth):
            self._truth = self._truth()
        return self._truth

    @property
    def reference(self) -> Reference | None:
        """What a long, trusted run says, or None."""
        if callable(self._reference) and not isinstance(self._reference, Reference):
            self._reference = self._reference()
        return self._reference

    def require_truth(self) -> Truth:
        """What is known exactly, or an error that there is nothing."""
        if self.truth is None:
            raise TargetError(f"nothing is known exactly about '{self.name}': it has no truth")
        return self.truth

    def draw_exact(self, key: Array, n: int) -> np.ndarray:
        """n exact independent draws, ``(n, dim)``, where the truth has a way to make them."""
        draw = self.require_truth().draw
        if draw is None:
            raise TargetError(f"there is no way to draw exactly from '{self.name}'")
        return draw(key, n)

    def __repr__(self) -> str:
        return f"Target('{self.name}', dim={self.dim}, like=({self.layout}))"

    def _repr_html_(self) -> str:
        shapes = zip(self.layout.paths, self.layout.shapes, strict=True)
        return html.panel(f"Target '{self.name}', dim {self.dim}", html.table(("unconstrained", "shape"), [*shapes]))


def as_data(data: PyTree) -> PyTree:
    """Data as arrays on a device; those that are there, sharded or not, stay as they are."""
    try:
        return jax.tree_util.tree_map(jnp.asarray, data)
    except (TypeError, ValueError) as error:
        raise TargetError("`data` must be a pytree of arrays, which the log-density is given") from error


def _check_scalar(out: PyTree, what: str, dtype: np.dtype) -> None:
    """Refuse, before anything runs, what is not one real number of the declared dtype."""
    if not hasattr(out, "shape"):
        raise TargetError(f"{what} returned a {type(out).__name__}; it must return one real number")
    if out.shape != ():
        raise TargetError(
            f"{what} returned an array of shape {out.shape}; it must return a scalar: did you forget jnp.sum?"
        )
    if not jnp.issubdtype(out.dtype, jnp.floating):
        raise TargetError(f"{what} returned {out.dtype}; it must return a real floating-point number")
    if out.dtype != dtype:
        raise TargetError(
            f"{what} changes dtype: positions are {dtype}, it returned {out.dtype}. Cast its constants "
            f"and data to {dtype}, or declare `like` as {out.dtype}."
        )


def _check_constrain(constrain: PyTree, layout: Layout) -> None:
    if not callable(constrain):
        raise TargetError(f"constrain must be a function of a position, not a {type(constrain).__name__}")
    _abstract(lambda flat: constrain(layout.unravel(flat)), layout, "constrain")


def _abstract(function: Callable, layout: Layout, what: str) -> PyTree:
    """The shape of what a user's function returns, found without running it."""
    position: PyTree = jax.ShapeDtypeStruct((layout.dim,), layout.dtype)  # type: ignore[no-untyped-call]
    try:
        return jax.eval_shape(function, position)
    except Exception as error:
        reason = (str(error).strip().splitlines() or ["no message"])[0].rstrip(".")
        raise TargetError(
            f"{what} raised {type(error).__name__} on a position like ({layout}): {reason}. "
            "Check that `like` has the structure and shapes the function expects, and that it is written in JAX."
        ) from error

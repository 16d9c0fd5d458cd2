"""What a method fitted: arrays and configuration, ready to draw and to be saved. No closures, no pickles."""

from __future__ import annotations

import os
import warnings
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ._version import __version__
from .certificate import Certificate
from .draws import Draws
from .runtime.errors import ConfigError, DrawsWarning
from .runtime.files import named_leaves
from .runtime.programs import Cost
from .runtime.sampler_files import write
from .runtime.validation import positive_int
from .target import Target


@dataclass(eq=False)
class Sampler:
    """A fitted method: ``sample(key, n)`` gives n draws.

    Attributes:
      target: what it samples.
      method: the frozen configuration that made it.
      params: what was tuned, as a pytree of arrays.
      record: the training record, one row an iteration.
      cost: what tuning cost.
      certificate: what `certify` found last, or None.
      source: where the command line found the target: ``{"builtin": name}`` or ``{"file": ..., "object": ...}``.
    """

    target: Target
    method: Any
    params: Any
    record: dict[str, np.ndarray] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    source: dict[str, str] = field(default_factory=dict)
    certificate: Certificate | None = None

    def sample(self, key: Array, n: int, *, chunk: int | None = None, progress: bool | None = None) -> Draws:
        """Draw n times.

        Memory beside the output does not grow with n: ``chunk`` draws are made at a time. Draw i depends on the key, on
        i and on ``chunk`` alone, so asking for more draws does not change the first ones.
        """
        n = positive_int(n, "n, the number of draws")
        if chunk is not None:
            chunk = positive_int(chunk, "chunk")
        draws = self.method.draw(self, require_key(key), n, chunk=chunk, progress=progress)
        draws = replace(draws, attributes=self.attributes(key))
        warn_of_lost(draws.logdensity)
        return draws

    @property
    def depth(self) -> int:
        """Gradients one draw costs, one after the other: the parameters' own where T was tuned, else the method's."""
        return self.params.depth if hasattr(self.params, "depth") else self.method.depth

    def attributes(self, key: Array) -> dict[str, Any]:
        """Plain facts about draws made with this key: the method and its settings, seed, versions."""
        words = np.asarray(key if key.dtype == jnp.uint32 else jax.random.key_data(key)).ravel()
        seed = sum(int(word) << (32 * place) for place, word in enumerate(reversed(words)))
        return {
            **self.method.attributes(),
            **(self.params.attributes() if hasattr(self.params, "attributes") else {}),
            "target": self.target.name,
            "seed": str(seed),
            "ergodic_version": __version__,
            "jax_version": jax.__version__,
            "certificate": "none" if self.certificate is None else self.certificate.verdict,
        }

    def certify(self, key: Array, *, draws: int = 10_000, level: float = 0.02, evidence: bool = False) -> Certificate:
        """Look for evidence against the sampler on fresh draws, and keep what was found as `certificate`.

        Args:
          key: use one that no other draws were made with.
          draws: how many fresh draws to look at.
          level: the probability, at most, that a sound sampler is failed.
          evidence: also estimate log Z and the target's entropy, by annealing along the tuned chain.
        """
        from .diagnostics.certify import certify

        self.certificate = certify(self, require_key(key), draws=draws, level=level, evidence=evidence)
        return self.certificate

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sampler to one file, atomically; `ergodic.load` reads it back."""
        save(self, path)

    def __repr__(self) -> str:
        return (
            f"Sampler({self.method.name} on '{self.target.name}', dim={self.target.dim}, "
            f"tuned in {self.cost.run_seconds:.2f} s + {self.cost.compile_seconds:.2f} s compile)"
        )


def warn_of_lost(logdensity: np.ndarray) -> None:
    """Warn whoever asked for draws of those that are nowhere."""
    lost = int(np.sum(~np.isfinite(logdensity)))
    if lost:
        warnings.warn(
            f"{lost:,} of {logdensity.size:,} draws lie where log π* is not finite; leave them out, or narrow P0",
            DrawsWarning,
            stacklevel=3,
        )


def require_key(key: Any) -> Array:
    """A JAX random key, or an error that says how to make one."""
    if isinstance(key, jax.Array) and (jnp.issubdtype(key.dtype, jax.dtypes.prng_key) or key.dtype == jnp.uint32):
        return key
    raise ConfigError(f"key must be a JAX random key such as jax.random.key(0), not {key!r}")


def save(sampler: Sampler, path: str | os.PathLike[str], *, members: int | None = None) -> None:
    """Write a sampler to ``path``; with ``members``, one whose parameters are a family's."""
    arrays = {f"params/{name}": np.asarray(leaf) for name, leaf in named_leaves(sampler.params)}
    arrays |= {f"record/{name}": np.asarray(column) for name, column in sampler.record.items()}
    header = {
        "method": sampler.method.name,
        "config": asdict(sampler.method),
        "target": describe(sampler.target),
        "source": sampler.source,
        "cost": asdict(sampler.cost),
        "certificate": None if sampler.certificate is None else sampler.certificate.to_dict(),
        **({} if members is None else {"members": members}),
    }
    write(path, header, arrays)


def describe(target: Target) -> dict[str, Any]:
    """What a file says of its target: name, dimension, dtype, and the shape of every leaf."""
    layout = target.layout
    leaves = {path: list(shape) for path, shape in zip(layout.paths, layout.shapes, strict=True)}
    return {"name": target.name, "dim": target.dim, "dtype": str(target.dtype), "leaves": leaves}

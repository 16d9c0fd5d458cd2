"""Which of several processes this one is. They share the work by its index alone, and say nothing to one another.

Chunk i of draws depends on the key and on i, so processes need to know no more than their number and their count. Where
a scheduler has started them, JAX finds both out (SLURM, Open MPI, Kubernetes, TPU pods: `jax.distributed.initialize`).
JAX's runtime is left again at once: it would end every process when one of them dies.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax

from .errors import ConfigError

AUTOMATIC = "auto"
"""In place of a coordinator's address: JAX finds out who takes part."""


@dataclass(frozen=True)
class Share:
    """The part of the work that is this process's: every ``count``-th piece, from number ``index`` on."""

    index: int = 0
    count: int = 1

    def has(self, piece: int) -> bool:
        """Whether a piece of work belongs to this process."""
        return piece % self.count == self.index

    def __str__(self) -> str:
        return f"process {self.index} of {self.count}"


def share(coordinator: str | None = None, processes: int | None = None, process: int | None = None) -> Share:
    """This process's share of the work.

    Args:
      coordinator: ``"auto"`` where JAX can find out who takes part; ``"HOST:PORT"`` of process 0, where all meet before
        they begin. None: nobody waits for the others, and ``processes`` and ``process`` say it all.
      processes: how many take part.
      process: which of them this is, from 0 on.

    Returns:
      The share; that of a process that is alone where nothing is given.
    """
    if (processes is None) != (process is None):
        raise ConfigError("processes and process belong together: how many there are, and which of them this is")
    if processes is not None and process is not None and not 0 <= process < processes:
        raise ConfigError(f"process is a number from 0 to {processes - 1}, one less than there are, not {process}")
    if coordinator is None:
        return Share() if processes is None or process is None else Share(process, processes)
    named = coordinator != AUTOMATIC
    if named and (processes is None or not coordinator.rpartition(":")[2].isdecimal()):
        raise ConfigError(
            f"a coordinator is HOST:PORT of process 0, given with processes and process, or '{AUTOMATIC}' under a "
            f"scheduler that JAX knows; not {coordinator!r} alone"
        )
    try:
        jax.distributed.initialize(coordinator if named else None, processes, process)
    except (ValueError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or ["no reason given"])[0].rstrip(".")
        raise ConfigError(
            f"JAX could not find out which process this is ({reason}); give processes and process as numbers"
        ) from error
    try:
        return Share(jax.process_index(), jax.process_count())
    finally:
        jax.distributed.shutdown()  # type: ignore[no-untyped-call]

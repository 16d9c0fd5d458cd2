"""Which of several processes this one is."""

import socket
import subprocess
import sys

import pytest

import ergodic as eg
from ergodic.runtime.hosts import Share, share

MEET = """
import sys
from ergodic.runtime.hosts import share
import jax, jax.numpy as jnp
found = share(sys.argv[1], 2, int(sys.argv[2]))
print(found.index, found.count)
print(float(jax.jit(lambda x: x + 1)(jnp.zeros(()))))  # alone again
"""


def test_shares_are_said_in_numbers():
    assert share() == Share(0, 1) and share(None, 3, 2) == Share(2, 3)
    assert [piece for piece in range(7) if Share(1, 3).has(piece)] == [1, 4]
    assert str(Share(1, 3)) == "process 1 of 3"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((None, 3, None), "belong together"),
        ((None, 3, 3), "from 0 to 2"),
        (("somewhere", 2, 0), "HOST:PORT"),
        (("here:1234", None, None), "given with processes and process"),
    ],
)
def test_what_makes_no_sense_is_refused(given, said):
    with pytest.raises(eg.ConfigError, match=said):
        share(*given)


def test_two_processes_meet_at_a_coordinator_and_part():
    """Real processes, by JAX's own runtime; each computes on its own afterwards."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    command = [sys.executable, "-c", MEET, address]
    both = [subprocess.Popen([*command, str(index)], stdout=subprocess.PIPE, text=True) for index in (0, 1)]
    assert [process.communicate(timeout=60)[0].split() for process in both] == [["0", "2", "1.0"], ["1", "2", "1.0"]]


def test_where_no_scheduler_is_known_the_error_says_what_to_give():
    """In a process of its own: once a backend is there, JAX's runtime cannot begin."""
    words = "from ergodic.runtime.hosts import share; share('auto')"
    found = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=False)
    assert "give processes and process as numbers" in found.stderr

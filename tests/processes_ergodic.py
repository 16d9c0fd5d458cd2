"""Other processes, as tests need them."""

import subprocess
import sys
from contextlib import contextmanager

from ergodic.runtime.writing import work_folder

_HOLD = """
import fcntl, os, sys
handle = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(handle, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_by_another_process(path):
    """Within, another process is writing this output."""
    folder = work_folder(path)
    folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-c", _HOLD, str(folder)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        yield other
        other.stdin.close()
        other.wait(10)
    folder.rmdir()

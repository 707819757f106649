"""CPU and wall seconds, and peak memory, of a command with all the processes that it starts."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SET_CHILD_SUBREAPER: Final = 36


@dataclass(frozen=True, slots=True)
class Cost:
    """What a command took."""

    cpu: float
    """Seconds, user and system, of the whole process tree."""
    wall: float
    """Seconds."""
    memory: int
    """Bytes at the peak of its largest process."""


class Failed(Exception):
    """The command ended badly; the text says how."""


def measure(command: Sequence[str], env: Mapping[str, str], log: Path) -> Cost:
    """Run a command to the end of its last process.

    Processes whose parent dies become children of this one (Linux), so that none is missed.

    Raises:
        Failed: it ended with another code than 0.
    """
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before, start = _children(), time.monotonic()
    with log.open("wb") as output:
        done = subprocess.run(
            command, env={**os.environ, **env}, stdout=output, stderr=subprocess.STDOUT, check=False
        )
    wall = time.monotonic() - start
    _wait_for_orphans()
    after = _children()
    if done.returncode:
        tail = log.read_text(errors="replace").strip().splitlines()[-1:]
        raise Failed(f"exit code {done.returncode}: {' '.join(tail)[:200]}")
    return Cost(after[0] - before[0], wall, after[1])


def _children() -> tuple[float, int]:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def _wait_for_orphans() -> None:
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


if __name__ == "__main__":  # one measurement a process, so that the peak is this command's
    cost = measure(sys.argv[2:], {}, Path(sys.argv[1]))
    print(cost.cpu, cost.wall, cost.memory)

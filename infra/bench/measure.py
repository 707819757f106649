"""CPU and wall seconds, and peak memory, of a command with all the processes that it starts."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

LOOK_SECONDS: Final = 0.1
ORPHAN_SECONDS: Final = 15
"""What outlives its command so long is ended: Ray's daemons take a while to notice."""
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


def measure(command: Sequence[str], log: Path, seconds: float) -> Cost:
    """Run a command to the end of its last process.

    Processes whose parent dies become children of this one (Linux), so that none is missed.

    Raises:
        Failed: it ended with another code than 0, or took longer than `seconds`.
    """
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    start, watch = time.monotonic(), _Watch()
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        while process.poll() is None and time.monotonic() - start < seconds:
            watch.look()
            time.sleep(LOOK_SECONDS)
    wall = time.monotonic() - start
    late = process.poll() is None
    _end_the_rest(0 if late else ORPHAN_SECONDS)
    if late:
        raise Failed(f"did not end in {seconds:.0f} s")
    if process.returncode:
        tail = log.read_text(errors="replace").strip().splitlines()[-1:]
        raise Failed(f"exit code {process.returncode}: {' '.join(tail)[:200]}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(max(watch.cpu(), used.ru_utime + used.ru_stime), wall, used.ru_maxrss * 1024)


class _Watch:
    """The CPU of every process seen below this one.

    The kernel adds up only processes that someone waited for, and Ray does not wait for all of its
    own; looking loses the last moment of each. The larger sum is nearer the truth.
    """

    def __init__(self) -> None:
        self._me = psutil.Process()
        self._seen: dict[psutil.Process, float] = {}

    def look(self) -> None:
        """Read the clocks."""
        for process in self._me.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                self._seen[process] = times.user + times.system

    def cpu(self) -> float:
        """Seconds."""
        return sum(self._seen.values())


def _end_the_rest(seconds: float) -> None:
    """Wait for what is left below this process, then end it; all of it is waited for."""
    me = psutil.Process()
    _, alive = psutil.wait_procs(me.children(recursive=True), timeout=seconds)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def main() -> None:
    """One measurement a process, so that the peak is this command's."""
    log, seconds, *command = sys.argv[1:]
    try:
        cost = measure(command, Path(log), float(seconds))
    except Failed as error:
        sys.exit(str(error))
    print(cost.cpu, cost.wall, cost.memory)


if __name__ == "__main__":
    main()

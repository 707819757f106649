"""The processes that commands under test start."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import psutil

LOOK_SECONDS: Final = 0.05
_SET_CHILD_SUBREAPER: Final = 36
HELPERS: Final = ("ray::DashboardAgent", "ray::RuntimeEnvAgent", "log_monitor", "dashboard.py")


def adopt_orphans() -> None:
    """Let processes whose parent dies become children of this one (Linux), so none is missed."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def below(pid: int) -> list[psutil.Process]:
    """All living processes below one; empty when it is gone."""
    try:
        found = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [process for process in found if _lives(process)]


def titled(processes: Sequence[psutil.Process], *starts: str) -> list[psutil.Process]:
    """Those whose title or program begins in one of these ways, in order of their ids."""
    found = []
    for process in processes:
        with suppress(psutil.Error):
            words = process.cmdline()
            if words and words[0].rpartition("/")[2].startswith(starts):
                found.append(process)
    return sorted(found, key=lambda process: process.pid)


def send(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to processes that may be gone."""
    for process in processes:
        with suppress(psutil.Error):
            process.send_signal(number)


def end_all(seconds: float = 10.0) -> list[str]:
    """What is still there below this process after `seconds`; it is killed then.

    Not named are helpers of Ray's that look for their head for up to a minute before they end.
    """
    end = time.monotonic() + seconds
    while (left := _unexpected(below(os.getpid()))) and time.monotonic() < end:
        _reap()
        time.sleep(LOOK_SECONDS)
    names = [_title(process) for process in left]
    everything = below(os.getpid())
    send(everything, signal.SIGKILL)
    psutil.wait_procs(everything, timeout=5)
    _reap()
    return names


def _unexpected(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    titles = ((process, _title(process)) for process in processes)
    return [process for process, title in titles if title and not any(h in title for h in HELPERS)]


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:200].strip()
    except psutil.Error:
        return ""


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass

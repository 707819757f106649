"""What a process that runs shards sets for itself, once."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Final

import psutil
import pyarrow as pa

MEMORY_ROOM: Final = 4 << 30
"""Bytes that a worker may take beyond what it has, at most."""
LEAST_ROOM: Final = 2 << 30
"""On a small machine: a large row group or record batch is read whole."""
COLLECTOR: Final = (50_000, 20, 100)
"""A batch makes some 30,000 objects that all die with it; almost none are in cycles."""


def leave_pandas_out() -> None:
    """Keep pyarrow from importing pandas, which it does at its first array where it is installed.

    Nothing here uses pandas, and it takes most of a second and 60 MB of every worker. For processes
    of our own only: pyarrow looks for pandas once, so `to_pandas` would fail in this process.
    """
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(_NoPandas)


class _NoPandas(MetaPathFinder):
    """Finds no pandas, and says so before others look."""

    @classmethod
    def find_spec(cls, fullname: str, path: object, target: object = None) -> None:
        """See `importlib.abc.MetaPathFinder`; None: let others look."""
        if fullname == "pandas":
            raise ModuleNotFoundError("left out", name=fullname)


def give_back_memory() -> None:
    """Let the system have what loading took for a moment: decoded files, 100 MB and more."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def calm_collector() -> None:
    """Keep the garbage collector from walking over what stays: tokenizer, templates, modules.

    Called when all is loaded. It walked through them several times a batch, a sixth of all time.
    """
    give_back_memory()
    gc.freeze()
    gc.set_threshold(*COLLECTOR)


def memory_room() -> int:
    """What a worker may take beyond what it has, where there is one for every core."""
    whole = psutil.virtual_memory().total
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file() and (text := limit.read_text().strip()).isdecimal():
        whole = min(whole, int(text))
    return max(LEAST_ROOM, min(MEMORY_ROOM, whole // len(os.sched_getaffinity(0))))


def bound_memory(room: int = MEMORY_ROOM) -> None:
    """Let this process take `room` bytes more than it has now, so that one row's bomb fails alone.

    What runs into the bound gets a MemoryError: a template's costs its row. For processes of our
    own only.
    """
    taken = psutil.Process().memory_info().data
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = taken + room
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))

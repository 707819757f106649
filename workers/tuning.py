"""What a process that runs shards sets for itself, once."""

from __future__ import annotations

import gc
import sys
from importlib.abc import MetaPathFinder
from typing import Final

import pyarrow as pa

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


def calm_collector() -> None:
    """Keep the garbage collector from walking over what stays: tokenizer, templates, modules.

    Called when all is loaded. It walked through them several times a batch, a sixth of all time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR)

"""Environment variables of native libraries and of Ray; both read them when they are loaded."""

from __future__ import annotations

import os
from typing import Final

ONE_THREAD: Final = {
    "RAYON_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
"""Native thread pools of a worker: there are as many workers as cores."""

_QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",  # sends nothing
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # does not warn about GPUs
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # does not print what the fleet says in its own words
}


def quieten_ray() -> None:
    """To be called before Ray is imported, where a run starts."""
    os.environ.update(_QUIET)

"""Environment variables of native libraries and of Ray; both read them when they are loaded."""

from __future__ import annotations

import os
from typing import Final

from promptmill.schemas.errors import JobError
from promptmill.workers.queue import LEASE_SECONDS

ONE_THREAD: Final = {
    "RAYON_NUM_THREADS": "1",
    "FASTOKENS_BPE_THREADS": "1",  # it starts one for every core, whatever Rayon is told
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
"""Native thread pools of a worker: there are as many workers as cores."""

_LOCAL: Final = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # Arrow's own keeps 50 MB that Python cannot have
    "FASTOKENS_BPE_THREADS": "1",  # two threads with a cache each take a third more of the cores
}

_QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",  # sends nothing
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # does not warn about GPUs
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # does not print what the fleet says in its own words
}

TOKEN_HELP: Final = (
    "A cluster that asks for a token needs RAY_AUTH_MODE=token and the token in RAY_AUTH_TOKEN (or "
    "~/.ray/auth_token) here, too."
)
"""What to do where Ray refuses access."""

_LEASE: Final = "PROMPTMILL_LEASE_SECONDS"


def lease_seconds() -> float:
    """How long workers may be silent; shorter than usual where faults are tried out.

    Raises:
        JobError: the variable is no number of seconds.
    """
    text = os.environ.get(_LEASE) or str(LEASE_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise JobError(f"{_LEASE}={text} is no number of seconds above 0. Unset it.")
    return seconds


def prepare_process() -> None:
    """Where a run starts, before Arrow and tokenizers are loaded; what the user has set stays."""
    for name, value in _LOCAL.items():
        os.environ.setdefault(name, value)


def quieten_ray() -> None:
    """To be called before Ray is imported, where a run starts."""
    os.environ.update(_QUIET)

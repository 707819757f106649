"""A process's folder for unpublished files whose final place is not on this machine.

It lies where TMPDIR says, is held by a lock as long as the process lives, and goes with it; those
of processes that were killed are removed by the next one.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

PREFIX: Final = "promptmill-scratch-"


@cache
def scratch_folder() -> Path:
    """The folder of this process; others cannot look into it."""
    remove_dead()
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        if _lock(folder) is not None and folder.exists():  # else another process was quicker
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            return folder


def remove_dead() -> None:
    """Remove the folders of processes that live no more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if (held := _lock(folder)) is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(held)


def _lock(folder: Path) -> int | None:
    """Hold a folder until the process ends or the descriptor is closed; None: it is held."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # gone, or another user's
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor

"""Publish a finished file under its final name, whole, and only if nothing stands there yet.

Several attempts may end with the same file: a slow worker and the one that took its place, two
drivers after a retry. One of them wins, the others' files disappear, and readers never see a half
of anything. This is the one place that needs to change for a storage with conditional creation.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

from promptmill.pipeline.write.names import attempt_of

_NO_LINKS: Final = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
"""What file systems without hard links answer."""


def publish(temporary: Path, final: Path) -> bool:
    """Give a finished file its final name, durably, unless another file has it.

    Args:
        temporary: a closed file on the same file system; it is gone afterwards.
        final: where it goes.

    Returns:
        Whether this file is the one that stands there now.

    Raises:
        OSError: neither is certain (disk full, folder gone); nothing half stands at `final`.
    """
    _sync(temporary)
    try:
        won = _link(temporary, final)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        won = claim_and_rename(temporary, final)
    temporary.unlink(missing_ok=True)
    _sync(final.parent)
    return won


def _link(temporary: Path, final: Path) -> bool:
    try:
        final.hardlink_to(temporary)
    except FileExistsError:
        # NFS may say so after doing it, when the first answer was lost.
        return temporary.samefile(final)
    return True


def claim_and_rename(temporary: Path, final: Path) -> bool:
    """`publish` on file systems without hard links.

    The name is claimed by creating it exclusively, then the file takes the claim's place. An
    attempt that dies in between leaves an empty file, which the next attempt replaces; two that
    meet in between both win, and a shard's attempts have the same bytes.
    """
    try:
        final.open("xb").close()
    except FileExistsError:
        if final.stat().st_size:
            return False
    temporary.replace(final)
    return True


def remove_leftovers(folder: Path, alive: Collection[str] = ()) -> list[str]:
    """Remove the temporary files of attempts that are over.

    Args:
        folder: searched itself, not below.
        alive: attempts that still work.

    Returns:
        The names removed. Only regular files that are named exactly as ours are.
    """
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    dead = [name for name in names if (attempt := attempt_of(name)) and attempt not in alive]
    for name in dead:
        (folder / name).unlink(missing_ok=True)
    return dead


def _sync(path: Path) -> None:
    """Ask that the content of a file or folder be on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems sync no folders
            raise
    finally:
        os.close(descriptor)

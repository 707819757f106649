"""Publish a finished file under its final name, whole, and only if nothing stands there yet.

Several attempts may end with the same file: a slow worker and the one that took its place, two
drivers after a retry. One of them wins, the others' files disappear, and readers never see a half
of anything. Local files get a second name, or take the place of an exclusive claim; object stores
create on condition.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from promptmill.pipeline.storage.place import Place, local
from promptmill.pipeline.storage.remote import RemotePath

_NO_LINKS: Final = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
"""What file systems without hard links answer."""


def publish(temporary: Path, final: Place) -> bool:
    """Give a finished file its final name, durably, unless another file has it.

    Args:
        temporary: a closed file; on the same file system, if `final` is local. It is gone
            afterwards.
        final: where it goes.

    Returns:
        Whether this file is the one that stands there now.

    Raises:
        OSError: neither is certain (disk full, folder gone); nothing half stands at `final`.
    """
    if isinstance(final, RemotePath):
        won = final.upload(temporary)
        temporary.unlink(missing_ok=True)
        return won
    return _publish_locally(temporary, local(final))


def _publish_locally(temporary: Path, final: Path) -> bool:
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

"""Local media files: only under one root, links resolved, regular files only."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from promptmill.schemas.errors import ErrorCode, RowError, Stage


def local_path(url: str) -> str | None:
    """The path that a file: URL or a bare path names; None for URLs of other schemes."""
    parts = urlsplit(url)
    if parts.scheme.lower() == "file":
        host = "" if parts.netloc.lower() == "localhost" else parts.netloc
        return url2pathname(host + parts.path)
    return None if parts.scheme else url


def read_local(path: str, root: str | None, *, max_bytes: int) -> bytes:
    """The bytes of a file under `root`; a relative path starts there.

    Raises:
        RowError: MEDIA_NOT_ALLOWED outside the root or without one; MEDIA_LIMIT;
            MEDIA_FETCH_FAILED where there is no such file.
    """
    if root is None:
        raise _not_allowed("Local media files are off. Name their folder with --allowed-media-root")
    base = Path(root).resolve()
    try:
        resolved = (base / path).resolve()
        if not resolved.is_relative_to(base):
            raise _not_allowed("The media file is not under --allowed-media-root, links followed")
        # Should a link take the file's place until it is opened, opening fails.
        handle = os.open(resolved, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError, RuntimeError) as error:
        raise _failed(f"The media file cannot be opened ({type(error).__name__})") from None
    try:
        _check(os.fstat(handle), max_bytes)
        with open(handle, "rb", closefd=False) as file:
            return file.read(max_bytes + 1)
    finally:
        os.close(handle)


def _check(facts: os.stat_result, max_bytes: int) -> None:
    """Refuse what is no file, and what is too large."""
    if not stat.S_ISREG(facts.st_mode):
        raise _not_allowed("The media path is not a regular file")
    if facts.st_size > max_bytes:
        raise RowError(
            ErrorCode.MEDIA_LIMIT,
            f"A media file of {facts.st_size} bytes is over the limit of {max_bytes} bytes. "
            "Use a smaller file.",
            stage=Stage.EXPAND,
        )


def _not_allowed(message: str) -> RowError:
    return RowError(ErrorCode.MEDIA_NOT_ALLOWED, message + ".", stage=Stage.EXPAND)


def _failed(message: str) -> RowError:
    return RowError(ErrorCode.MEDIA_FETCH_FAILED, message + ".", stage=Stage.EXPAND)

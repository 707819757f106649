"""An open file of a store whose faults are tried again and, at last, named."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO

from promptmill.pipeline.storage.faults import with_retries


def open_stored(url: str, open_it: Callable[[], BinaryIO]) -> BinaryIO:
    """Open a file of a store for reading.

    Args:
        url: for messages.
        open_it: opens the file, as its client library does.

    Raises, now and with every read:
        FileNotFoundError: it is not there.
        StorageError: the store failed for good.
    """
    return io.BufferedReader(_Raw(url, with_retries("open", url, open_it)), _BUFFER_BYTES)


_BUFFER_BYTES = 1 << 18


class _Raw(io.RawIOBase):
    """What `io.BufferedReader` asks of a file."""

    def __init__(self, url: str, file: BinaryIO) -> None:
        self._url, self._file = url, file

    def readinto(self, buffer: Any, /) -> int:  # any buffer, as typeshed has it
        data = with_retries("read", self._url, partial(self._read, self._file.tell(), len(buffer)))
        buffer[: len(data)] = data
        return len(data)

    def _read(self, place: int, size: int) -> bytes:
        if self._file.tell() != place:
            self._file.seek(place)
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()

"""Opening input files: local paths plainly, URLs through fsspec; and hashing what is read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from promptmill.pipeline.storage.opened import open_stored
from promptmill.pipeline.storage.systems import BLOCK_BYTES, system_of


class Readable(Protocol):
    """What a sequential reader needs of a file."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes; b"" at the end."""
        ...


def open_input(url: str) -> BinaryIO:
    """Open an `InputFile.url` for reading.

    Raises:
        OSError: the storage cannot deliver it.
    """
    if "://" not in url:
        return Path(url).open("rb")
    system, path = system_of(url)
    return open_stored(url, lambda: cast(BinaryIO, system.open(path, "rb", BLOCK_BYTES)))


def blocks(file: Readable, size: int, limit: int | None = None) -> Iterator[bytes]:
    """The rest of a file in blocks of `size` bytes, or the next `limit` bytes of it."""
    while limit is None or limit > 0:
        block = file.read(size if limit is None else min(size, limit))
        if not block:
            return
        if limit is not None:
            limit -= len(block)
        yield block


class HashedFile:
    """A file that hashes whatever is read from it, in the order in which it is read.

    Read from one end to the other, the hash is that of the stored bytes. It has what pyarrow asks
    of a Python file.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.bytes_read = 0

    def read(self, size: int = -1, /) -> bytes:
        """Read, and count and hash what came."""
        data = self._file.read(size)
        self._digest.update(data)
        self.bytes_read += len(data)
        return data

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """As a file's; what is skipped is not hashed."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """As a file's."""
        return self._file.tell()

    def size(self) -> int:
        """Bytes in the file; the place in it does not change."""
        place = self.tell()
        end = self.seek(0, 2)
        self.seek(place)
        return end

    def close(self) -> None:
        """Close the file; the hash stays."""
        self._file.close()

    @property
    def closed(self) -> bool:
        """As a file's."""
        return self._file.closed

    def sha256(self) -> str:
        """Hash of all that was read so far, hexadecimal."""
        return self._digest.hexdigest()

"""A new file that knows its size and hash when it is closed, without being read again."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path


class HashingFile:
    """A binary file, written once from start to end; what pyarrow needs of a file object.

    Raises:
        FileExistsError: something stands under the name already.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("xb")
        self._hash = hashlib.sha256()
        self.size = 0
        """Bytes written so far."""

    @property
    def sha256(self) -> str:
        """Hash of what was written so far, hexadecimal."""
        return self._hash.hexdigest()

    @property
    def closed(self) -> bool:
        """Whether nothing more can be written."""
        return self._file.closed

    def write(self, data: bytes) -> int:
        """Append `data` (anything that is a buffer of bytes); its size."""
        count = self._file.write(data)
        self._hash.update(data)
        self.size += count
        return count

    def tell(self) -> int:
        """The position of the next write."""
        return self.size

    def flush(self) -> None:
        """Hand everything to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Flush and close; again is nothing.

        Raises:
            OSError: the storage failed; the file is discarded.
        """
        try:
            self._file.close()
        except OSError:
            self.discard()
            raise

    def discard(self) -> None:
        """Close and remove the file, if it is still there."""
        with contextlib.suppress(OSError):  # a full disk must not keep the file
            self._file.close()
        self._path.unlink(missing_ok=True)

"""Where a disturbed job writes: a folder, or a bucket of an S3 server of the round's own."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from check import Miss

if TYPE_CHECKING:
    from s3_server import S3Server

BUCKET: Final = "chaos"
LOOK_SECONDS: Final = 0.5


class Output(Protocol):
    """As the command line names it, and as a round looks at it."""

    address: str

    def committed(self) -> int:
        """Receipts that stand there."""

    def as_folder(self) -> Path:
        """All of it as a local folder."""


@dataclass
class FolderOutput:
    """A folder on the small disk."""

    root: Path

    @property
    def address(self) -> str:
        return str(self.root)

    def committed(self) -> int:
        return len(list((self.root / "_promptmill" / "receipts").glob("*.json")))

    def as_folder(self) -> Path:
        return self.root


class StoreOutput:
    """A bucket.

    Args:
        server: without the bucket.
        copy: where it is copied to.
    """

    address = f"s3://{BUCKET}/out"

    def __init__(self, server: S3Server, copy: Path) -> None:
        self._server, self._copy = server, copy
        self._seen, self._looked = 0, 0.0
        server.direct("PUT", f"/{BUCKET}")

    def committed(self) -> int:
        if time.monotonic() - self._looked > LOOK_SECONDS:
            self._looked = time.monotonic()
            self._seen = len(self._keys("out/_promptmill/receipts/"))
        return self._seen

    def as_folder(self) -> Path:
        for key in self._keys("out/"):
            path = self._copy / key.removeprefix("out/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self._server.direct("GET", f"/{BUCKET}/{key}"))
        uploads = self._server.direct("GET", f"/{BUCKET}?uploads").decode()
        if begun := re.findall(r"<Key>(.*?)</Key>", uploads):
            raise Miss(f"uploads are left: {begun}")
        return self._copy

    def _keys(self, prefix: str) -> list[str]:
        query = f"/{BUCKET}?list-type=2&prefix={prefix}"
        return re.findall(r"<Key>(.*?)</Key>", self._server.direct("GET", query).decode())

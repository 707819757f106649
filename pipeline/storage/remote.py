"""A path in an object store, through fsspec. There are no folders: they are common beginnings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, Literal, TypeVar, cast

from fsspec import AbstractFileSystem

from promptmill.pipeline.storage.faults import StorageError, with_retries
from promptmill.pipeline.storage.opened import open_stored
from promptmill.pipeline.storage.systems import UPLOAD_BYTES, file_system, protocol_of

OUTPUT_STORES: Final = ("s3", "gs", "memory")
"""What can create an object only if its name is free; `memory` is for tests."""
READ_TOGETHER: Final = 256
"""Small files that are asked for at the same time."""
READ_BLOCK_BYTES: Final = 1 << 20

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class RemotePath:
    """An object, or all objects whose keys begin with this one's and a slash.

    Picklable; the connection is the process's own. Everything is tried again where a fault may
    pass.

    Raises, everywhere:
        StorageError: the store failed for good.
    """

    url: str
    """`s3://bucket/key`, without a slash at the end and without credentials."""

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(f"{self.url}/{name}")

    @property
    def name(self) -> str:
        """As `Path.name`."""
        return self.url.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """As `Path.suffix`."""
        return Path(self.name).suffix

    @property
    def parent(self) -> RemotePath:
        """As `Path.parent`."""
        return RemotePath(self.url.rpartition("/")[0])

    def absolute(self) -> RemotePath:
        """As `Path.absolute`."""
        return self

    def exists(self) -> bool:
        """Whether there is an object, or one below."""
        return self._info() is not None

    def is_dir(self) -> bool:
        """Whether there are objects below."""
        info = self._info()
        return info is not None and info["type"] == "directory"

    def iterdir(self) -> Iterator[RemotePath]:
        """What lies directly below."""
        return (self / name for name in self.entries())

    def entries(self) -> dict[str, int | None]:
        """Names and sizes of what lies directly below, None for folders; nothing: no entries."""
        try:
            found = self._do("list", lambda system, key: system.ls(key, detail=True))
        except FileNotFoundError:
            return {}
        own = self._key
        return {
            path.rpartition("/")[2]: info["size"] if info["type"] == "file" else None
            for info in found
            if (path := info["name"].rstrip("/")) != own  # a marker that some tools make
        }

    def open(self, mode: Literal["rb"]) -> BinaryIO:
        """Open for reading."""
        system, key = self._system, self._key

        def open_it() -> BinaryIO:
            return cast(BinaryIO, system.open(key, mode, READ_BLOCK_BYTES))

        return open_stored(self.url, open_it)

    def read_bytes(self) -> bytes:
        """The whole object.

        Raises:
            FileNotFoundError: there is none.
        """
        return cast(bytes, self._do("read", lambda system, key: system.cat_file(key)))

    def read_many(self, names: list[str]) -> Iterator[tuple[str, bytes]]:
        """Objects below by their names, many at a time."""
        for start in range(0, len(names), READ_TOGETHER):
            keys = {f"{self._key}/{name}": name for name in names[start : start + READ_TOGETHER]}
            read = with_retries("read", self.url, partial(self._system.cat, [*keys]))
            yield from ((name, read[key]) for key, name in keys.items())

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object."""
        try:
            self._do("delete", lambda system, key: system.rm_file(key))
        except FileNotFoundError:
            if not missing_ok:
                raise

    def create(self, data: bytes) -> bool:
        """Write a small object unless there is one; whether what stands there now is this one."""
        try:
            self._write(lambda system, key: system.pipe_file(key, data, mode="create"))
        except FileExistsError:
            return self.read_bytes() == data  # the answer to a first attempt may have been lost
        return True

    def upload(self, file: Path) -> bool:
        """As `create`, for a file; what died or lost leaves nothing that can be seen."""

        def put(system: AbstractFileSystem, key: str) -> None:
            system.put_file(str(file), key, mode="create", chunksize=UPLOAD_BYTES)

        try:
            self._write(put)
        except FileExistsError:
            return False
        return True

    def replace_with(self, data: bytes) -> None:
        """Write a small object in the place of what is there."""
        self._write(lambda system, key: system.pipe_file(key, data))

    def abort_uploads(self) -> None:
        """End the multipart uploads below that dead attempts began; kept quiet where forbidden."""
        if protocol_of(self.url) != "s3":
            return
        bucket, _, prefix = self._key.partition("/")

        def abort(system: AbstractFileSystem, _: str) -> None:
            answer = system.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=f"{prefix}/")
            for upload in answer.get("Uploads", ()):
                system.abort_mpu(bucket, upload["Key"], upload["UploadId"])

        with suppress(StorageError, FileNotFoundError):
            self._do("abort uploads", abort)

    @property
    def _system(self) -> AbstractFileSystem:
        return file_system(self.url.partition("://")[0])

    @property
    def _key(self) -> str:
        return cast(str, self._system._strip_protocol(self.url))

    def _info(self) -> dict[str, object] | None:
        try:
            found = self._do("look", lambda system, key: system.info(key))
        except FileNotFoundError:
            return None
        return cast("dict[str, object]", found)

    def _write(self, call: Callable[[AbstractFileSystem, str], object]) -> None:
        try:
            self._do("write", call)
        except FileNotFoundError as error:
            bucket = self._key.partition("/")[0]
            raise StorageError(
                f"{self.url}: write failed, not found: {error}. Create the bucket {bucket} first; "
                "it is not made here."
            ) from None

    def _do(self, operation: str, call: Callable[[AbstractFileSystem, str], Result]) -> Result:
        return with_retries(operation, self.url, partial(call, self._system, self._key))

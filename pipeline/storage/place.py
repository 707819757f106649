"""A place in an output: a path of this machine or one in an object store, used alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

from promptmill.pipeline.storage.remote import OUTPUT_STORES, RemotePath
from promptmill.pipeline.storage.systems import check_url, protocol_of
from promptmill.schemas.errors import JobError


class Place(Protocol):
    """What is asked of a place; `pathlib.Path` and `RemotePath` have it. `str` shows it."""

    @property
    def name(self) -> str:
        """The last part."""

    @property
    def suffix(self) -> str:
        """The ending of the name, with its dot."""

    @property
    def parent(self) -> Place:
        """The folder it lies in."""

    def absolute(self) -> Place:
        """It, wherever the process works."""

    def __truediv__(self, name: str, /) -> Place:
        """A place in this folder."""

    def exists(self) -> bool:
        """Whether something is there."""

    def is_dir(self) -> bool:
        """Whether it is a folder."""

    def iterdir(self) -> Iterator[Place]:
        """What lies in this folder."""

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Open it for reading."""

    def read_bytes(self) -> bytes:
        """All that is in it."""

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove it."""


def place_of(output: str) -> Place:
    """The place that a person named.

    Raises:
        JobError: a URL of a store that cannot hold a run.
    """
    protocol = protocol_of(output)
    if protocol is None:
        return Path(output).absolute()
    if protocol == "file":
        return Path(output.removeprefix("file://")).absolute()
    check_url(output)
    if protocol not in OUTPUT_STORES:
        known = ", ".join(f"{name}://" for name in OUTPUT_STORES if name != "memory")
        raise JobError(
            f"{output} is in no store that can keep a run. Name a folder, or a URL with {known}."
        )
    path = output.partition("://")[2].strip("/")
    return RemotePath(f"{protocol}://{path}")


def local(place: Place) -> Path:
    """A place that is known to be of this machine."""
    assert isinstance(place, Path)
    return place


def sizes(folder: Place) -> dict[str, int]:
    """Names and bytes of the files in a folder; none where there is no folder."""
    if isinstance(folder, RemotePath):
        return {name: size for name, size in folder.entries().items() if size is not None}
    try:
        files = [path for path in local(folder).iterdir() if path.is_file()]
        return {path.name: path.stat().st_size for path in files}
    except FileNotFoundError:
        return {}


def read_files(folder: Place, names: list[str]) -> Iterator[tuple[str, bytes]]:
    """The content of many small files in a folder, in the order of the names."""
    if isinstance(folder, RemotePath):
        yield from folder.read_many(names)
        return
    for name in names:
        yield name, (folder / name).read_bytes()

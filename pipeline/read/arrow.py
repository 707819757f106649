"""Arrow IPC, file and stream format: their record batches, and the rows of a range of them.

Both formats are one sequence of messages (the file format adds a frame around it), each with its
length in front. Going from head to head finds every record batch, its length in rows included,
without reading a body; pyarrow decodes the batches that are wanted.
Source: the Arrow columnar format, "Serialization and Interprocess Communication", and the tables
`Message` and `RecordBatch` of its flatbuffers schema.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import pyarrow as pa

from promptmill.pipeline.read.columnar import Unit, UnitSize, is_corruption
from promptmill.pipeline.read.files import HashedFile
from promptmill.schemas.errors import JobError
from promptmill.schemas.shard import Shard

_MAGIC: Final = b"ARROW1"
_FRAME_START: Final = 8
_FRAME_END: Final = struct.Struct("<i6s")
"""Of the file format: the footer's length and the magic."""
_LONG_PREFIX: Final = b"\xff\xff\xff\xff"
"""Stands before the length of a message since Arrow 0.15."""


class _Kind(IntEnum):
    """`MessageHeader` of the schema."""

    SCHEMA = 1
    DICTIONARY_BATCH = 2
    RECORD_BATCH = 3


@dataclass(frozen=True, slots=True)
class _Message:
    kind: int
    start: int
    stop: int
    rows: int
    """Of a record batch; 0 for others."""


def record_batches(file: HashedFile, name: str) -> list[UnitSize]:
    """The record batches of a file, from the heads of its messages.

    Raises:
        JobError: it is no Arrow IPC, or it ends too early.
    """
    schema, *messages = _messages(file, name)
    _schema(file, name, schema)
    batches = (message for message in messages if message.kind == _Kind.RECORD_BATCH)
    return [UnitSize(batch.rows, batch.stop - batch.start) for batch in batches]


def arrow_columns(file: HashedFile, name: str) -> list[str]:
    """The names of the columns.

    Raises:
        JobError: as `record_batches`.
    """
    return list(_schema(file, name, next(_messages(file, name))).names)


def _schema(file: HashedFile, name: str, message: _Message) -> pa.Schema:
    try:
        return pa.ipc.open_stream(_stored(file, message)).schema
    except Exception as error:
        if not is_corruption(error):
            raise
        raise _unreadable(name, error) from error


def arrow_units(file: HashedFile, shard: Shard) -> Iterator[Unit]:
    """The record batches of a shard; one is in memory at a time.

    What is read, and so what is hashed, is the heads of the messages up to the shard's end, the
    schema, dictionaries, and the shard's batches.
    """
    shared = b""  # schema and dictionaries: what a batch needs to be a stream of its own
    number = 0
    for message in _messages(file, shard.file.name):
        if message.kind != _Kind.RECORD_BATCH:
            shared += _stored(file, message)
            continue
        if number >= shard.stop:
            return
        if number >= shard.start:
            yield Unit(f"record batch {number}", message.rows, _decoded(file, shared, message))
        number += 1


def _decoded(file: HashedFile, shared: bytes, message: _Message) -> Iterator[pa.RecordBatch]:
    yield pa.ipc.open_stream(shared + _stored(file, message)).read_next_batch()


def _stored(file: HashedFile, message: _Message) -> bytes:
    file.seek(message.start)
    return file.read(message.stop - message.start)


def _messages(file: HashedFile, name: str) -> Iterator[_Message]:
    """The messages in order, the schema first.

    Raises:
        JobError: they are no sound sequence.
    """
    try:
        yield from _walk(file)
    except (ValueError, struct.error) as error:
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: Exception) -> JobError:
    return JobError(
        f"{name} cannot be read as Arrow IPC (file or stream format): {error}. Write it again, or "
        "leave it out of the input."
    )


def _walk(file: HashedFile) -> Iterator[_Message]:
    start, end = _bounds(file)
    at = start
    while at < end:
        file.seek(at)
        prefix = file.read(4)
        if prefix == _LONG_PREFIX:
            prefix += file.read(4)
        (length,) = struct.unpack("<i", prefix[-4:])
        if length == 0:  # end of stream
            break
        head = file.read(length) if 0 < length <= end - at else b""
        kind, rows, body = _parsed(head)
        if (kind == _Kind.SCHEMA) != (at == start):
            raise ValueError(f"a schema is missing or misplaced at byte {at}")
        stop = at + len(prefix) + length + body
        if body < 0 or rows < 0 or stop > end:
            raise ValueError(f"it ends inside the message at byte {at}")
        yield _Message(kind, at, stop, rows)
        at = stop
    if at == start:
        raise ValueError("it holds no schema")


def _bounds(file: HashedFile) -> tuple[int, int]:
    """Where the messages start and stop."""
    size = file.size()
    file.seek(0)
    if file.read(len(_MAGIC)) != _MAGIC:
        return 0, size
    file.seek(max(size - _FRAME_END.size, 0))
    footer, magic = _FRAME_END.unpack(file.read(_FRAME_END.size))
    if magic != _MAGIC:
        raise ValueError("its end is missing")
    return _FRAME_START, size - _FRAME_END.size - footer


def _parsed(head: bytes) -> tuple[int, int, int]:
    """Kind, rows and body length of a message, out of its flatbuffer."""
    message = _Table(head, *struct.unpack_from("<I", head))
    kind = message.number("B", 1)
    rows = message.table(2).number("q", 0) if kind == _Kind.RECORD_BATCH else 0
    return kind, rows, message.number("q", 3)


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of a flatbuffer: fields are found through its vtable."""

    data: bytes
    at: int

    def number(self, code: str, field: int) -> int:
        """A number field (0 where it is absent), its type as struct names it."""
        place = self._place(field)
        value: int = struct.unpack_from(f"<{code}", self.data, place)[0] if place else 0
        return value

    def table(self, field: int) -> _Table:
        """A table field."""
        place = self._place(field)
        return _Table(self.data, place + struct.unpack_from("<I", self.data, place)[0])

    def _place(self, field: int) -> int:
        (back,) = struct.unpack_from("<i", self.data, self.at)
        vtable = self.at - back
        (size,) = struct.unpack_from("<H", self.data, vtable)
        slot = 4 + 2 * field
        (offset,) = struct.unpack_from("<H", self.data, vtable + slot) if slot < size else (0,)
        return self.at + offset if offset else 0

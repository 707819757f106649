"""Rows out of Parquet row groups and Arrow record batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from promptmill.pipeline.read.cells import records
from promptmill.pipeline.read.sizes import CHUNK_BYTES
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.request import RawRow
from promptmill.schemas.shard import Shard

CHUNK_ROWS: Final = 256
"""What is turned into Python objects at once, at most."""


class UnitSize(NamedTuple):
    """A row group or record batch, as planning sees it."""

    rows: int
    size: int
    """Bytes as stored."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What a columnar file is cut at: a row group or a record batch."""

    name: str
    """For messages: "row group 3"."""
    rows: int
    """As the file's metadata says."""
    batches: Iterator[pa.RecordBatch]
    """Its rows, decoded as they are asked for."""


@dataclass(frozen=True, slots=True)
class _Lost:
    """Rows at the end of a unit that cannot be decoded."""

    num_rows: int
    error: RowError


def is_corruption(error: Exception) -> bool:
    """Whether pyarrow refuses what it read, as opposed to the storage not delivering it.

    pyarrow says both with OSError: corruption with the class itself and without an errno. What
    unpacks to more than the process may take is refused, too: it would be in any other attempt.
    """
    if isinstance(error, OSError):
        return type(error) is OSError and error.errno is None
    return isinstance(error, (pa.ArrowException, ValueError, MemoryError))


def chunk_rows(rows: int, size: int) -> int:
    """How many of `rows` rows that take `size` bytes may be Python objects at once."""
    return max(1, min(CHUNK_ROWS, CHUNK_BYTES * rows // max(size, 1)))


def columnar_rows(shard: Shard, units: Iterable[Unit]) -> Iterator[RawRow]:
    """Exactly the shard's rows, in order.

    A row group or record batch that turns out to be corrupt loses the rows from there to its end:
    each of them comes as an error, so that the totals hold, and the next one is read again.

    Args:
        shard: says how many rows of the first unit belong to the shard before.
        units: those that the shard touches.

    Raises:
        OSError: the storage failed, as opposed to the file being corrupt.
    """
    at = shard.first_row - shard.skip
    end = shard.first_row + shard.rows
    for unit in units:
        for part in _parts(shard.file.name, unit):
            first, stop = max(at, shard.first_row), min(at + part.num_rows, end)
            if first < stop and isinstance(part, _Lost):
                for index in range(first, stop):
                    yield RawRow(shard.file.name, index, None, error=part.error)
            elif first < stop:
                yield from _rows(shard.file.name, part, at, first, stop)
            at += part.num_rows


def _parts(source: str, unit: Unit) -> Iterator[pa.RecordBatch | _Lost]:
    """The batches of a unit, and at last what is missing: `unit.rows` rows in all."""
    left = unit.rows
    while left:
        batch, why = None, _TOO_FEW
        try:
            batch = next(unit.batches, None)
        except Exception as error:
            if not is_corruption(error):
                raise
            why = _why(error)
        if batch is None:
            message = (
                f"the last {left} of {unit.rows} rows of {unit.name} of {source} cannot be read: "
                f"{why.reason}. {why.way_out}"
            )
            yield _Lost(left, RowError(why.code, message, stage=Stage.READ))
            return
        yield batch.slice(0, left)
        left -= min(left, batch.num_rows)


class _Why(NamedTuple):
    """Why rows are lost."""

    reason: str
    code: ErrorCode = ErrorCode.UNREADABLE_INPUT
    way_out: str = "Write the file again from its source."


_TOO_FEW: Final = _Why("it holds fewer rows than it says")


def _why(error: Exception) -> _Why:
    if not isinstance(error, MemoryError):
        return _Why(str(error))
    return _Why(
        f"unpacked, they need too much memory ({error})",
        ErrorCode.MEMORY_EXCEEDED,
        "Write the file again with fewer rows in a row group or record batch.",
    )


def _rows(source: str, batch: pa.RecordBatch, at: int, first: int, stop: int) -> Iterator[RawRow]:
    """Rows `first` to `stop` of the file, from the batch that starts at row `at`."""
    for start in range(first, stop, CHUNK_ROWS):
        chunk = batch.slice(start - at, min(CHUNK_ROWS, stop - start))
        for index, record in enumerate(records(chunk), start):
            if isinstance(record, RowError):
                yield RawRow(source, index, None, error=record)
            else:
                yield RawRow(source, index, record)

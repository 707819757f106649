"""Where row groups end: decided by the rows alone, however they came in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

GROUP_ROWS: Final = 65_536
GROUP_BYTES: Final = 32 * 2**20
"""Of lists and strings, not compressed; an id and its offsets are 12 bytes."""

_STRUCT_BYTES: Final = 64
"""What a media span or a warning counts for."""


class RowGroups:
    """Collects record batches and hands out row groups, bounded in rows and in bytes.

    A group ends before the row that would take it over a bound; a row beyond the bound is a group
    of its own. So the offsets of lists and strings stay far from 2^31, and memory is that of a
    group and a batch, however large the part becomes.
    """

    def __init__(self) -> None:
        self._bounds = np.array([GROUP_ROWS, GROUP_BYTES])
        self._filled = np.zeros(2, np.int64)
        self._pending: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.Table]:
        """Take a batch and give the groups that are full, each in one chunk."""
        costs = np.stack([np.ones(len(batch), np.int64), row_bytes(batch)], axis=1)
        start = 0
        while start < len(batch):
            filled = self._filled + np.cumsum(costs[start:], axis=0)
            fits = (filled <= self._bounds).all(axis=1)
            count = len(fits) if fits.all() else int(fits.argmin())
            if not count and not self._pending:
                count = 1
            if count:
                self._pending.append(batch.slice(start, count))
                self._filled = filled[count - 1]
                start += count
            if start < len(batch):
                yield from self.rest()

    def rest(self) -> Iterator[pa.Table]:
        """The group that is not full, if there is one."""
        if self._pending:
            table = pa.Table.from_batches(self._pending)
            self._pending, self._filled = [], np.zeros(2, np.int64)
            # Copied even where it is one slice of one batch: buffers then end where the rows do.
            arrays = [pa.concat_arrays(column.chunks) for column in table.columns]
            yield pa.Table.from_arrays(arrays, schema=table.schema)


def row_bytes(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Bytes of each row's strings and lists, shape (rows,)."""
    total = np.zeros(len(batch), np.int64)
    for column in batch.columns:
        if pa.types.is_string(column.type):
            sizes, width = pc.binary_length(column), 1
        elif pa.types.is_list(column.type):
            sizes, width = pc.list_value_length(column), _width(column.type.value_type)
        else:
            continue
        total += pc.fill_null(sizes, 0).to_numpy().astype(np.int64) * width
    return total


def _width(kind: pa.DataType) -> int:
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * _width(kind.value_type)
    return int(kind.bit_width) // 8 if pa.types.is_integer(kind) else _STRUCT_BYTES

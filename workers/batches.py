"""Cutting a stream of rows into batches that are worth a call and fit in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from promptmill.schemas.json_types import Json
from promptmill.schemas.request import RawRow
from promptmill.workers.leases import RowRange

BATCH_ROWS = 1024
BATCH_BYTES = 4 << 20


def batches(
    rows: Iterable[RawRow],
    careful: Sequence[RowRange] = (),
    *,
    most_rows: int = BATCH_ROWS,
    most_bytes: int = BATCH_BYTES,
) -> Iterator[list[RawRow]]:
    """Rows in order, in batches bounded in rows and bytes; the last row of one may exceed it.

    Args:
        rows: the rows of a shard.
        careful: ranges of `row_index` whose rows are each a batch of their own.
        most_rows: bound on the rows of a batch.
        most_bytes: bound on its bytes, as far as they are easily counted.
    """
    batch: list[RawRow] = []
    size = 0
    for row in rows:
        alone = bool(careful) and any(start <= row.row_index < stop for start, stop in careful)
        if batch and (alone or len(batch) >= most_rows or size >= most_bytes):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += len(row.data) if isinstance(row.data, bytes) else weight(row.data)
        if alone:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def weight(data: bytes | Json) -> int:
    """About how many bytes a row holds: exact for a line, its texts for a decoded row."""
    if isinstance(data, (bytes, str)):
        return len(data)
    if isinstance(data, dict):
        return sum(map(weight, data.values()))
    if isinstance(data, list):
        return sum(map(weight, data))
    return 8

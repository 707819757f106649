"""The index of packed sequences over finished parts: which rows share a sequence. No id is copied.

    part, row, length     lists, an entry a row: the part's number, the row in it, its ids
    num_tokens            ids of the whole sequence

Rows are packed in windows of consecutive rows, a row group each: whoever reads the sequences back
holds the ids of one window and never jumps about in the parts. A window is so large that its last,
half empty sequences do not matter. The parts decide it all: the same parts give the same index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from promptmill.pipeline.packing import best_fit_decreasing
from promptmill.pipeline.read.finished import part_batches
from promptmill.schemas.packs import PackTotals

WINDOW_ROWS: Final = 131_072
WINDOW_TOKENS: Final = 32 * 2**20
"""A window ends before the row that would take it over either."""

TOTALS_KEY: Final = "promptmill.packs"
FINGERPRINT_KEY: Final = "promptmill.fingerprint"
"""Of the job whose parts these are, as in the parts."""

_ROWS: Final = pa.list_(pa.field("element", pa.int32(), nullable=False))
_SCHEMA: Final = pa.schema(
    [
        pa.field("part", _ROWS, nullable=False),
        pa.field("row", _ROWS, nullable=False),
        pa.field("length", _ROWS, nullable=False),
        pa.field("num_tokens", pa.int32(), nullable=False),
    ]
)


@dataclass(slots=True)
class _Window:
    """Consecutive rows that fit: part, row and length of each."""

    rows: list[tuple[int, int, int]] = field(default_factory=list)
    tokens: int = 0

    def has_room(self, length: int) -> bool:
        return len(self.rows) < WINDOW_ROWS and self.tokens + length <= WINDOW_TOKENS


class _Windows:
    """The rows of some parts, cut into windows, and what was left out."""

    def __init__(self, parts: Sequence[Path], size: int) -> None:
        self._parts, self._size = parts, size
        self.too_long = 0
        self.first_too_long: str | None = None

    def __iter__(self) -> Iterator[_Window]:
        window = _Window()
        for part, row, length in self._rows():
            if window.rows and not window.has_room(length):
                yield window
                window = _Window()
            window.rows.append((part, row, length))
            window.tokens += length
        if window.rows:
            yield window

    def _rows(self) -> Iterator[tuple[int, int, int]]:
        for number, part in enumerate(self._parts):
            row = 0
            for batch in part_batches(part, ("num_tokens", "source", "row_index")):
                lengths = batch.column("num_tokens").to_pylist()
                for position, length in enumerate(lengths):
                    if length <= self._size:
                        yield number, row + position, length
                        continue
                    if not self.too_long:
                        source = batch.column("source")[position]
                        self.first_too_long = f"{source} row {batch.column('row_index')[position]}"
                    self.too_long += 1
                row += len(lengths)


def write_packs(
    path: Path,
    parts: Sequence[Path],
    size: int,
    fingerprint: str,
    stopped: Callable[[], bool] = lambda: False,
) -> PackTotals | None:
    """Write an index of sequences of at most `size` ids. Memory: the lengths of one window.

    Args:
        path: a new file.
        parts: all parts of a run, in order.
        size: ids that a sequence may have. Rows of more are in no sequence, and counted.
        fingerprint: of the run's job.
        stopped: asked before every window whether to give up.

    Returns:
        What is in it; None: it was given up, and the file is of no use.

    Raises:
        JobError: a part cannot be read.
    """
    windows = _Windows(parts, size)
    packs = rows = tokens = 0
    with pq.ParquetWriter(path, _SCHEMA, compression="zstd") as writer:
        for window in windows:
            if stopped():
                return None
            table = _packed(window, size)
            writer.write_table(table, len(table))
            packs, rows, tokens = (
                packs + len(table),
                rows + len(window.rows),
                tokens + window.tokens,
            )
        totals = PackTotals(
            size=size,
            packs=packs,
            rows=rows,
            tokens=tokens,
            too_long=windows.too_long,
            first_too_long=windows.first_too_long,
        )
        about = {TOTALS_KEY: msgspec.json.encode(totals).decode(), FINGERPRINT_KEY: fingerprint}
        writer.add_key_value_metadata(about)
    return totals


def _packed(window: _Window, size: int) -> pa.Table:
    facts = np.array(window.rows, np.int32)
    packs = best_fit_decreasing(facts[:, 2].astype(np.int64), size)
    order = np.array([row for pack in packs for row in pack], np.int64)
    bounds = np.concatenate([[0], np.cumsum([len(pack) for pack in packs])]).astype(np.int32)
    lists = [
        pa.ListArray.from_arrays(bounds, pa.array(facts[order, n]), type=_ROWS) for n in range(3)
    ]
    sums = np.add.reduceat(facts[order, 2], bounds[:-1], dtype=np.int32)
    return pa.Table.from_arrays([*lists, pa.array(sums)], schema=_SCHEMA)

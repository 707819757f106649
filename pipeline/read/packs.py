"""Packed sequences, read back: the ids of several rows one after the other, and whose they are.

for sequence in packed_sequences("OUT", 4096):
    model(sequence.input_ids, position_ids=sequence.position_ids, ...)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from promptmill.pipeline.read.finished import (
    LABEL_COLUMNS,
    finished_parts,
    ids_and_labels,
    local_folder,
    part_batches,
    part_schema,
)
from promptmill.pipeline.write.names import PRIVATE, packs_name
from promptmill.pipeline.write.packs import FINGERPRINT_KEY, TOTALS_KEY
from promptmill.schemas.columns import NO_LOSS
from promptmill.schemas.errors import JobError
from promptmill.schemas.packs import PackTotals
from promptmill.schemas.request import Ids

_Place = tuple[int, int]
"""Number of a part, row in it."""


@dataclass(frozen=True, slots=True)
class PackedSequence:
    """Rows one after the other, without padding; all arrays have the shape (ids,)."""

    input_ids: Ids
    labels: Ids
    """As the `labels` column has them, and none at the first id of a row: what comes before is
    another row."""
    position_ids: Ids
    """From 0 in every row."""
    segment_ids: Ids
    """From 1, a number a row: ids attend to ids of their own number. 0 is left for padding."""
    cu_seqlens: Ids
    """Where rows begin, and the end, as attention over rows of unlike lengths takes it; shape
    (rows + 1,)."""
    rows: tuple[_Place, ...]
    """Which rows these are: number of the part, row in it, from 0."""


def read_pack_totals(index: Path) -> PackTotals | None:
    """The counts of an index; None where it cannot be read as one."""
    try:
        about = pq.read_metadata(index).metadata or {}
        return msgspec.json.decode(about[TOTALS_KEY.encode()], type=PackTotals)
    except (OSError, pa.ArrowException, KeyError, msgspec.MsgspecError):
        return None


def packed_sequences(output: str | Path, size: int) -> Iterator[PackedSequence]:
    """The packed sequences of a run that was made with `--pack SIZE`, in the order of the index.

    Holds the ids and labels of one window of the index at a time (some 256 MB at most, and half as
    much for their packed copies as they are asked for). Shuffle what comes out, not the input.

    Args:
        output: the run's folder.
        size: the `--pack` that is meant.

    Raises:
        JobError: there is no such index, or it belongs to other parts.
    """
    root = local_folder(output)
    index, parts = root / PRIVATE / packs_name(size), finished_parts(root)
    _check(index, parts, size)
    rows = _rows(parts)
    with pq.ParquetFile(index) as file:
        for window in range(file.num_row_groups):
            table = file.read_row_group(window, columns=["part", "row"]).to_pydict()
            packs = [
                tuple(zip(*pack, strict=True))
                for pack in zip(table["part"], table["row"], strict=True)
            ]
            found = _collect(rows, {place for pack in packs for place in pack})
            for pack in packs:
                yield _sequence(pack, found)


def _check(index: Path, parts: Sequence[Path], size: int) -> None:
    if not index.exists():
        raise JobError(
            f"There is no index {index}. Give the run's command again with --pack {size}."
        )
    made_for = (pq.read_metadata(index).metadata or {}).get(FINGERPRINT_KEY.encode())
    if any(
        (part_schema(p).metadata or {}).get(FINGERPRINT_KEY.encode()) != made_for for p in parts
    ):
        raise JobError(
            f"{index} belongs to other parts than lie beside it. Remove it, and give the run's "
            f"command again with --pack {size}."
        )


_Stored = tuple[Ids, Ids]
"""Ids and labels of a row."""


def _collect(rows: Iterator[tuple[_Place, _Stored]], wanted: set[_Place]) -> dict[_Place, _Stored]:
    """The wanted rows, which are the next ones of `rows` but for those in no pack."""
    found: dict[_Place, _Stored] = {}
    while len(found) < len(wanted):
        place, stored = next(rows)
        if place in wanted:
            found[place] = stored
    return found


def _rows(parts: Sequence[Path]) -> Iterator[tuple[_Place, _Stored]]:
    for number, part in enumerate(parts):
        row = 0
        for batch in part_batches(part, LABEL_COLUMNS):
            for stored in zip(*ids_and_labels(batch), strict=True):
                yield (number, row), stored
                row += 1


def _sequence(pack: tuple[_Place, ...], found: Mapping[_Place, _Stored]) -> PackedSequence:
    lengths = [len(found[place][0]) for place in pack]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    segments = np.repeat(np.arange(1, len(pack) + 1, dtype=np.int32), lengths)
    labels = np.concatenate([found[place][1] for place in pack])
    labels[starts[:-1][starts[:-1] < starts[-1]]] = NO_LOSS
    return PackedSequence(
        input_ids=np.concatenate([found[place][0] for place in pack]),
        labels=labels,
        position_ids=np.arange(starts[-1], dtype=np.int32) - starts[segments - 1],
        segment_ids=segments,
        cu_seqlens=starts,
        rows=pack,
    )

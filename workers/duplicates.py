"""Ids that occur in more than one shard: counted and named at the end of a run.

Within a shard a repeated id is a reject. Across shards it cannot be one without making the output
depend on which shard came first, so it is a warning. One pass over the id column of the parts
keeps 64 bits an id; more ids than fit are taken in several passes, a share of the hashes each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from promptmill.pipeline.read.arrow_source import arrow_source
from promptmill.pipeline.storage.place import Place

ID_COLUMN = "custom_id"
HASHES_IN_MEMORY = 32 << 20
STORE_READERS = 16
NAMED = 3
"""So many duplicate ids are named."""

Hashes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Ids that several token rows have."""

    count: int
    """Rows beyond the first of their id."""
    names: tuple[str, ...]
    """Some of the ids."""


def find_duplicates(
    parts: Sequence[Place], rows: int, *, most_hashes: int = HASHES_IN_MEMORY
) -> Duplicates:
    """Look through the ids of all parts.

    Args:
        parts: the part files.
        rows: token rows in all of them.
        most_hashes: hashes to hold at once; bounds the memory (8 bytes each, twice for sorting).
    """
    passes = -(-rows // most_hashes) or 1
    count, seen_twice = 0, set[int]()
    for share in range(passes):
        with ThreadPoolExecutor(_readers(parts)) as pool:
            chosen = pool.map(partial(_hashes, passes=passes, share=share), parts)
            unique, times = np.unique(np.concatenate([*chosen, _NONE]), return_counts=True)
        count += int(times.sum()) - len(unique)
        repeated = unique[times > 1]
        seen_twice.update(repeated[: NAMED - len(seen_twice)].tolist())
    names = _names(parts, seen_twice) if seen_twice else ()
    return Duplicates(count, names)


_NONE: Hashes = np.empty(0, np.int64)


def _readers(parts: Sequence[Place]) -> int:
    """How many parts to read at the same time: a store lets one wait for every answer."""
    return STORE_READERS if parts and not isinstance(parts[0], Path) else 1


def _hashes(part: Place, passes: int, share: int) -> Hashes:
    """A share of a part's ids, by Python's own hash: keyed anew in every process."""
    all_of_it = (np.fromiter(map(hash, ids), np.int64, len(ids)) for ids in _ids(part))
    return np.concatenate([_NONE, *(hashes[hashes % passes == share] for hashes in all_of_it)])


def _names(parts: Sequence[Place], wanted: set[int]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for part in parts:
        for name in (name for ids in _ids(part) for name in ids):
            if hash(name) in wanted:
                found[name] = None
        if len(found) >= len(wanted):
            break
    return tuple(found)


def _ids(part: Place) -> Iterator[list[str]]:
    """The ids of a part, a batch at a time."""
    with arrow_source(part) as source:
        if part.suffix == ".parquet":
            with pq.ParquetFile(source) as file:
                for batch in file.iter_batches(columns=[ID_COLUMN]):
                    yield batch.column(0).to_pylist()
        else:
            with pa.ipc.open_file(source) as file:
                for number in range(file.num_record_batches):
                    yield file.get_batch(number).column(ID_COLUMN).to_pylist()

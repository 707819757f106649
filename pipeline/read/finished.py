"""The finished parts of a run, read again in order, with bounded memory."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from promptmill.pipeline.labels import labels_of
from promptmill.schemas.columns import stored_name
from promptmill.schemas.errors import JobError
from promptmill.schemas.request import Ids

log = logging.getLogger(__name__)

BATCH_ROWS = 1024

LABEL_COLUMNS: Final = ("prompt_token_ids", "labels", "assistant_mask", "mm_placeholders")
"""What ids and labels are read from."""


def local_folder(name: str | Path) -> Path:
    """A folder of this machine.

    Raises:
        JobError: it is a URL.
    """
    if "://" in str(name):
        raise JobError(f"{name} is a URL, and this reads folders only. Copy the folder here first.")
    return Path(name)


def finished_parts(root: Path) -> list[Path]:
    """The parts of a folder, in the order of their shards."""
    return sorted(path for path in root.glob("part-*") if path.suffix in {".parquet", ".arrow"})


def part_schema(path: Path) -> pa.Schema:
    """The schema of a part, its metadata included.

    Raises:
        JobError: it cannot be read.
    """
    try:
        if path.suffix == ".parquet":
            return pq.read_schema(path)
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as file:
            return file.schema
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error


def part_batches(path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a part, a batch at a time.

    Args:
        path: Parquet or Arrow.
        columns: as vLLM names them; those that the part does not have are left out.

    Yields:
        Batches whose columns are named as vLLM names them.

    Raises:
        JobError: it cannot be read.
    """
    log.info("reading %s", path.name)
    schema = part_schema(path)
    names = {name: stored_name(name, schema.names) for name in columns}
    found = {name: stored for name, stored in names.items() if stored is not None}
    try:
        for batch in _batches(path, list(found.values())):
            yield pa.RecordBatch.from_arrays(
                [batch.column(stored) for stored in found.values()], names=list(found)
            )
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error


def row_arrays(column: pa.ListArray) -> list[npt.NDArray[Any] | None]:
    """The values of each row as views into the column; None where it is null."""
    offsets, values = column.offsets.to_numpy(), column.values.to_numpy()
    rows = [values[start:stop] for start, stop in pairwise(offsets.tolist())]
    if not column.null_count:
        return [*rows]
    there = column.is_valid().to_pylist()
    return [row if valid else None for row, valid in zip(rows, there, strict=True)]


def ids_and_labels(batch: pa.RecordBatch) -> tuple[list[Ids], list[Ids]]:
    """The ids of each row and its labels, which are made where the run stored none.

    Args:
        batch: with `LABEL_COLUMNS`, as far as the part has them.
    """
    ids = [row for row in row_arrays(batch.column("prompt_token_ids")) if row is not None]
    if "labels" in batch.schema.names:
        return ids, [row for row in row_arrays(batch.column("labels")) if row is not None]
    has_mask = "assistant_mask" in batch.schema.names
    masks = row_arrays(batch.column("assistant_mask")) if has_mask else [None] * len(ids)
    media = batch.column("mm_placeholders").to_pylist()
    labels = [
        labels_of(row, mask, ((span["offset"], span["length"]) for span in spans))
        for row, mask, spans in zip(ids, masks, media, strict=True)
    ]
    return ids, labels


def _batches(path: Path, stored: list[str]) -> Iterator[pa.RecordBatch]:
    if path.suffix == ".parquet":
        with pq.ParquetFile(path, pre_buffer=False) as file:
            yield from file.iter_batches(BATCH_ROWS, columns=stored, use_threads=False)
        return
    with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as file:
        for number in range(file.num_record_batches):
            yield file.get_batch(number).select(stored)


def _unreadable(path: Path, error: Exception) -> JobError:
    return JobError(
        f"The part {path} cannot be read: {error}. The command that made the run does a lost part "
        "again once it is removed."
    )

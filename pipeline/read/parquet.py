"""Parquet files: their row groups, and the rows of a range of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from promptmill.pipeline.read.columnar import Unit, UnitSize, chunk_rows, is_corruption
from promptmill.pipeline.read.files import HashedFile
from promptmill.schemas.errors import JobError
from promptmill.schemas.shard import Shard

BUFFER_BYTES: Final = 1 << 20
"""How much of a column is fetched at once: a row group is never held whole."""


def row_groups(file: HashedFile, name: str) -> list[UnitSize]:
    """The row groups of a file, from its footer.

    Raises:
        JobError: it is no Parquet file, or its footer is corrupt.
    """
    footer = _opened(file, name).metadata
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    # Shares of the file: exact sizes are in the column metadata, and pyarrow aborts the process
    # where that is corrupt.
    stored, unpacked = file.size(), sum(group.total_byte_size for group in groups)
    return [
        UnitSize(group.num_rows, stored * group.total_byte_size // max(unpacked, 1))
        for group in groups
    ]


def parquet_columns(file: HashedFile, name: str) -> list[str]:
    """The names of the columns, from the footer.

    Raises:
        JobError: as `row_groups`.
    """
    return list(_opened(file, name).schema_arrow.names)


def parquet_units(file: HashedFile, shard: Shard) -> Iterator[Unit]:
    """The row groups of a shard, decoded in bounded memory; page checksums are verified.

    What is read, and so what is hashed, is the footer and the shard's column chunks, in the order
    in which one thread decodes them.
    """
    parquet = _opened(file, shard.file.name)
    for index in range(shard.start, min(shard.stop, parquet.num_row_groups)):
        group = parquet.metadata.row_group(index)
        batches = parquet.iter_batches(
            batch_size=chunk_rows(group.num_rows, group.total_byte_size),
            row_groups=[index],
            use_threads=False,
        )
        yield Unit(f"row group {index}", group.num_rows, batches)


def _opened(file: HashedFile, name: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(
            pa.PythonFile(file, mode="r"),
            buffer_size=BUFFER_BYTES,
            pre_buffer=False,
            page_checksum_verification=True,
        )
    except Exception as error:
        if not is_corruption(error):
            raise
        raise JobError(
            f"{name} cannot be read as Parquet: {error}. Write it again, or leave it out of the "
            "input."
        ) from error

"""A shard as raw rows, read in constant memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial

from promptmill.pipeline.read.arrow import arrow_units
from promptmill.pipeline.read.columnar import columnar_rows
from promptmill.pipeline.read.compressed import decompressed
from promptmill.pipeline.read.files import HashedFile, blocks, open_input
from promptmill.pipeline.read.lines import BLOCK_BYTES, line_rows
from promptmill.pipeline.read.parquet import parquet_units
from promptmill.schemas.errors import JobError
from promptmill.schemas.options import JobOptions
from promptmill.schemas.request import RawRow
from promptmill.schemas.shard import InputCompression, InputKind, Shard


def read_shard(shard: Shard, options: JobOptions) -> Iterator[RawRow]:
    """The rows of a shard; see `ShardReader`."""
    return iter(ShardReader(shard, options))


class ShardReader:
    """Iterates the rows of a shard in order: exactly `shard.rows`, whatever state the file is in.

    Blank lines are rows with `data=b""`. A row that cannot be carried comes with its error: a line
    over the limit, the break of a compressed file, each row that a corrupt row group or record
    batch loses.

    Raises, while iterating:
        JobError: the file is not the one that was planned.
        OSError: the storage failed; reading again may help.
    """

    def __init__(self, shard: Shard, options: JobOptions) -> None:
        self._shard = shard
        self._sha256: str | None = None
        self.bytes_read = 0
        """Stored bytes that were read; known when all rows were."""

    def __iter__(self) -> Iterator[RawRow]:
        shard = self._shard
        count = 0
        with closing(HashedFile(open_input(shard.file.url))) as stored:
            if stored.size() != shard.file.size:
                raise self._changed(f"has {stored.size()} bytes, not {shard.file.size}")
            for row in _rows(stored, shard):
                count += 1
                yield row
            self.bytes_read = stored.bytes_read
            self._sha256 = stored.sha256()
        if count != shard.rows:
            raise self._changed(f"gives {count} rows for shard {shard.index}, not {shard.rows}")

    def sha256(self) -> str:
        """Hash of the stored bytes that were read, hexadecimal; known when all rows were.

        For plain JSONL these are the bytes of the shard, for compressed files the whole file, for
        columnar files the footer or heads and the shard's columns in the order of reading.
        """
        if self._sha256 is None:
            raise RuntimeError("the hash is known when the shard was read to its end")
        return self._sha256

    def _changed(self, how: str) -> JobError:
        return JobError(
            f"{self._shard.file.url} changed since the run was planned: it {how}. Put the old file "
            "back, or start a run of its own for the new one."
        )


def _rows(stored: HashedFile, shard: Shard) -> Iterator[RawRow]:
    file = shard.file
    if file.kind is InputKind.PARQUET:
        return columnar_rows(shard, parquet_units(stored, shard))
    if file.kind is InputKind.ARROW:
        return columnar_rows(shard, arrow_units(stored, shard))
    if file.compression is not InputCompression.NONE:
        content = decompressed(stored, file.compression, partial(open_input, file.url))
        return line_rows(content, file.name, 0, 0)
    stored.seek(shard.start)
    content = blocks(stored, BLOCK_BYTES, shard.stop - shard.start)
    return line_rows(content, file.name, shard.first_row, shard.start)

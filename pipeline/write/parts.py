"""Token rows to one part file, Parquet or Arrow, row group by row group."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from promptmill.pipeline.write.batches import BatchBuilder
from promptmill.pipeline.write.groups import RowGroups
from promptmill.pipeline.write.sink import HashingFile
from promptmill.schemas.columns import arrow_schema, columns
from promptmill.schemas.errors import JobError
from promptmill.schemas.options import JobOptions, OutputFormat
from promptmill.schemas.request import TokenRow

METADATA_PREFIX: Final = "promptmill."
"""Before every key that we put into a file's metadata."""

ZSTD_LEVEL: Final = 1
"""Higher levels cost several times the CPU for a few percent of size."""

CODECS: Final = {
    OutputFormat.PARQUET: ("zstd", "lz4", "snappy", "gzip", "none"),
    OutputFormat.ARROW: ("zstd", "lz4", "none"),
}


@dataclass(frozen=True, slots=True)
class PartInfo:
    """A finished part."""

    rows: int
    tokens: int
    bytes: int
    sha256: str


class PartWriter:
    """Writes one part; a context manager that discards the file on an error.

    The same rows give the same bytes, however they are spread over `write` calls.

    Args:
        path: a new file.
        options: decide columns, format and compression.
        metadata: goes into the file's metadata (Parquet: the footer), keys prefixed.

    Raises:
        JobError: the format has no such compression.
    """

    def __init__(self, path: Path, *, options: JobOptions, metadata: Mapping[str, str]) -> None:
        codec = _codec(options)
        named = {METADATA_PREFIX + key: metadata[key] for key in sorted(metadata)}
        schema = arrow_schema(options).with_metadata(named)
        self._batches = BatchBuilder(options)
        self._groups = RowGroups()
        self._file = HashingFile(path)
        sink = pa.PythonFile(self._file, mode="w")
        if options.format is OutputFormat.PARQUET:
            self._writer = _open_parquet(sink, schema, codec, options)
        else:
            self._writer = _open_arrow(sink, schema, codec)
        self._rows = 0
        self._tokens = 0

    def write(self, rows: Sequence[TokenRow]) -> None:
        """Append rows, in the order given.

        Raises:
            RowError: a string of a row is not Unicode text; none of `rows` was taken.
        """
        self._write(self._groups.add(self._batches.build(rows)))
        self._rows += len(rows)
        self._tokens += sum(len(row.ids) for row in rows)

    def close(self) -> PartInfo:
        """Write what is pending and finish the file; again only says the same.

        Raises:
            OSError: the storage failed; the file is discarded.
        """
        if not self._file.closed:
            try:
                self._write(self._groups.rest())
                self._writer.close()
                self._file.close()
            except OSError:
                self.abort()
                raise
        return PartInfo(self._rows, self._tokens, self._file.size, self._file.sha256)

    def abort(self) -> None:
        """Discard the file."""
        if not self._file.closed:
            with contextlib.suppress(OSError):  # the disk may be full; the file goes anyway
                self._writer.close()
        self._file.discard()

    def _write(self, groups: Iterable[pa.Table]) -> None:
        for group in groups:
            self._writer.write_table(group, len(group))

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close() if kind is None else self.abort()


def _open_parquet(
    sink: pa.NativeFile, schema: pa.Schema, codec: str, options: JobOptions
) -> pq.ParquetWriter:
    chosen = [(leaf, c) for c in columns(options) for leaf in c.leaves(options.columns)]
    return pq.ParquetWriter(
        sink,
        schema,
        compression=codec,
        compression_level=ZSTD_LEVEL if codec == "zstd" else None,
        use_dictionary=[leaf for leaf, c in chosen if c.encoding is None],
        column_encoding={leaf: c.encoding for leaf, c in chosen if c.encoding is not None},
        write_statistics=[leaf for leaf, c in chosen if c.statistics],
    )


def _open_arrow(sink: pa.NativeFile, schema: pa.Schema, codec: str) -> pa.RecordBatchFileWriter:
    level = ZSTD_LEVEL if codec == "zstd" else None
    compression = None if codec == "none" else pa.Codec(codec, compression_level=level)
    options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
    return pa.ipc.new_file(sink, schema, options=options)


def _codec(options: JobOptions) -> str:
    known = CODECS[options.format]
    if options.compression not in known:
        raise JobError(
            f"--format {options.format} knows the compressions {', '.join(known)}; "
            f"--compression is {options.compression}. Name one of them."
        )
    return options.compression

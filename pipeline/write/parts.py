"""Token rows to one part file, Parquet or Arrow, row group by row group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

import pyarrow as pa

from promptmill.pipeline.write.batches import record_batch
from promptmill.pipeline.write.groups import RowGroups
from promptmill.pipeline.write.parquet import ZSTD_LEVEL, ParquetSink
from promptmill.pipeline.write.sink import HashingFile
from promptmill.schemas.columns import arrow_schema
from promptmill.schemas.errors import JobError
from promptmill.schemas.options import JobOptions, OutputFormat
from promptmill.schemas.request import TokenRow

METADATA_PREFIX: Final = "promptmill."
"""Before every key that we put into a file's metadata."""

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
        self._file = HashingFile(path)
        kind = ParquetSink if options.format is OutputFormat.PARQUET else _ArrowSink
        self._sink = kind(self._file, schema, codec, options)
        self._rows = 0
        self._tokens = 0

    def write(self, rows: Sequence[TokenRow]) -> None:
        """Append rows, in the order given.

        Raises:
            RowError: a string of a row is not Unicode text; none of `rows` was taken.
        """
        self._sink.add(rows)
        self._rows += len(rows)
        self._tokens += sum(len(row.ids) for row in rows)

    def close(self) -> PartInfo:
        """Write what is pending and finish the file; again only says the same.

        Raises:
            OSError: the storage failed; the file is discarded.
        """
        if not self._file.closed:
            try:
                self._sink.close()
                self._file.close()
            except BaseException:
                self.abort()
                raise
        return PartInfo(self._rows, self._tokens, self._file.size, self._file.sha256)

    def abort(self) -> None:
        """Discard the file."""
        self._file.discard()

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close() if kind is None else self.abort()


class _ArrowSink:
    """Takes rows in order and writes an Arrow file."""

    def __init__(
        self, file: HashingFile, schema: pa.Schema, codec: str, options: JobOptions
    ) -> None:
        level = ZSTD_LEVEL if codec == "zstd" else None
        compression = None if codec == "none" else pa.Codec(codec, compression_level=level)
        settings = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
        sink = pa.PythonFile(file, mode="w")
        self._writer = pa.ipc.new_file(sink, schema, options=settings)
        self._options = options
        self._groups = RowGroups()

    def add(self, rows: Sequence[TokenRow]) -> None:
        """As `ParquetSink.add`."""
        self._write(self._groups.add(record_batch(rows, self._options)))

    def close(self) -> None:
        """As `ParquetSink.close`."""
        self._write(self._groups.rest())
        self._writer.close()

    def _write(self, groups: Iterable[pa.Table]) -> None:
        for group in groups:
            self._writer.write_table(group, len(group))


def _codec(options: JobOptions) -> str:
    known = CODECS[options.format]
    if options.compression not in known:
        raise JobError(
            f"--format {options.format} knows the compressions {', '.join(known)}; "
            f"--compression is {options.compression}. Name one of them."
        )
    return options.compression

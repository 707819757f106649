"""Parquet parts: pyarrow writes all but the token columns, whose pages are made in `pages.py`.

Of every row group pyarrow makes a small file in memory, its token columns all empty lists. Its
column chunks go into the part with ours in the place of the empty ones, and so do its descriptions
in the footer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from promptmill.pipeline.write.batches import is_token_column, record_batch, token_values
from promptmill.pipeline.write.groups import GroupCutter, entry_bytes, row_bytes
from promptmill.pipeline.write.pages import ENCODINGS, RLE, Page, page_of
from promptmill.pipeline.write.sink import HashingFile
from promptmill.pipeline.write.thrift import (
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    Items,
    Struct,
    decode,
    encode,
)
from promptmill.schemas.columns import Column, columns
from promptmill.schemas.options import JobOptions
from promptmill.schemas.request import TokenRow

PAGE_TOKENS: Final = 1 << 17
"""Ids of a page at most, unless a row has more."""
ZSTD_LEVEL: Final = 1
"""Higher levels cost several times the CPU for a few percent of size."""

_MAGIC: Final = b"PAR1"
_CODECS: Final = {"lz4": "lz4_raw"}
"""Names that Parquet understands otherwise than Arrow does."""


class _Field:
    """Numbers of the fields of a footer that are looked at here, as Parquet's format has them."""

    FILE_ROWS, ROW_GROUPS = 3, 4
    GROUP_COLUMNS, GROUP_BYTES, GROUP_START, GROUP_PACKED, GROUP_NUMBER = 1, 2, 5, 6, 7
    CHUNK_FACTS = 3
    ENCODINGS, VALUES, WHOLE, PACKED = 2, 5, 6, 7
    DATA_START, DICTIONARY_START = 9, 11
    PAGE_ENCODINGS, SIZES = 13, 16


class ParquetSink:
    """Takes rows in order and writes a Parquet file.

    Args:
        file: empty.
        schema: with the file's metadata.
        codec: name of a compression.
        options: decide the columns.
    """

    def __init__(
        self, file: HashingFile, schema: pa.Schema, codec: str, options: JobOptions
    ) -> None:
        self._file, self._schema, self._codec, self._options = file, schema, codec, options
        self._columns = columns(options)
        self._cutter = GroupCutter()
        self._batches: list[pa.RecordBatch] = []
        self._pages = _Pages([c for c in self._columns if is_token_column(c)], codec)
        self._footer = self._small_file([])[1]
        self._groups: list[Struct] = []
        self._rows = 0
        file.write(_MAGIC)

    def add(self, rows: Sequence[TokenRow]) -> None:
        """Append rows.

        Raises:
            RowError: a string of a row is not Unicode text; none of `rows` was taken.
        """
        batch = record_batch(rows, self._options, token_columns=False)
        ids = [len(row.ids) for row in rows]
        sizes = row_bytes(batch) + np.array(ids, np.int64) * self._pages.id_bytes
        for piece, ends in self._cutter.cut(sizes):
            self._batches.append(batch[piece])
            self._pages.add(rows[piece], ids[piece])
            if ends:
                self._end_group()

    def close(self) -> None:
        """Write what is pending, and the footer."""
        if self._batches:
            self._end_group()
        self._footer.put(_Field.FILE_ROWS, I64, self._rows)
        self._footer.put(_Field.ROW_GROUPS, LIST, Items(STRUCT, [*self._groups]))
        footer = encode(self._footer)
        self._file.write(footer + len(footer).to_bytes(4, "little") + _MAGIC)

    def _end_group(self) -> None:
        small, footer = self._small_file(self._batches)
        group = footer.structs(_Field.ROW_GROUPS)[0]
        pages = self._pages.end()
        start = self._file.tell()
        leaves = [c for c in self._columns for _ in c.leaves(self._options.columns)]
        chunks = [chunk.struct(_Field.CHUNK_FACTS) for chunk in group.structs(_Field.GROUP_COLUMNS)]
        for column, facts in zip(leaves, chunks, strict=True):
            if column.name in pages:
                self._write_pages(facts, pages[column.name], ENCODINGS[column.encoding or ""])
            else:
                self._copy_chunk(facts, small)
        group.put(_Field.GROUP_BYTES, I64, sum(facts.number(_Field.WHOLE) for facts in chunks))
        group.put(_Field.GROUP_PACKED, I64, self._file.tell() - start)
        group.put(_Field.GROUP_START, I64, start)
        group.put(_Field.GROUP_NUMBER, I16, len(self._groups))
        self._groups.append(group)
        self._rows += sum(map(len, self._batches))
        self._batches = []

    def _write_pages(self, facts: Struct, pages: Sequence[Page], encoding: int) -> None:
        """Write a token column's pages; `facts` are those of its empty stand-in."""
        used = Struct({1: (I32, 0), 2: (I32, encoding), 3: (I32, len(pages))})
        facts.put(_Field.ENCODINGS, LIST, Items(I32, [encoding, RLE]))
        facts.put(_Field.PAGE_ENCODINGS, LIST, Items(STRUCT, [used]))
        facts.put(_Field.VALUES, I64, sum(page.values for page in pages))
        facts.put(_Field.WHOLE, I64, sum(page.whole_bytes for page in pages))
        facts.put(_Field.PACKED, I64, sum(len(page.data) for page in pages))
        facts.put(_Field.DATA_START, I64, self._file.tell())
        facts.fields.pop(_Field.SIZES, None)
        for page in pages:
            self._file.write(page.data)

    def _copy_chunk(self, facts: Struct, small: bytes) -> None:
        """Bring a column chunk over from the small file."""
        starts = [n for n in (_Field.DICTIONARY_START, _Field.DATA_START) if n in facts.fields]
        first = min(facts.number(field) for field in starts)
        for field in starts:
            facts.put(field, I64, facts.number(field) - first + self._file.tell())
        self._file.write(small[first : first + facts.number(_Field.PACKED)])

    def _small_file(self, batches: Sequence[pa.RecordBatch]) -> tuple[bytes, Struct]:
        """A Parquet file of these rows without what the token columns hold, and its footer."""
        buffer = pa.BufferOutputStream()
        with _writer(buffer, self._schema, self._codec, self._options) as writer:
            if batches:
                table = self._with_stand_ins(pa.Table.from_batches(batches))
                writer.write_table(table, len(table))
        content = buffer.getvalue().to_pybytes()
        size = int.from_bytes(content[-8:-4], "little")
        return content, decode(content[-8 - size : -8])

    def _with_stand_ins(self, table: pa.Table) -> pa.Table:
        arrays = [
            _empty_lists(len(table), column.type)
            if is_token_column(column)
            else table.column(column.name_in(self._options.columns)).combine_chunks()
            for column in self._columns
        ]
        return pa.Table.from_arrays(arrays, schema=self._schema)


class _Pages:
    """Makes pages of rows, for every token column, until a row group ends."""

    def __init__(self, columns: Sequence[Column], codec: str) -> None:
        self._columns = columns
        self._codec = None
        if codec != "none":
            level = ZSTD_LEVEL if codec == "zstd" else None
            self._codec = pa.Codec(_CODECS.get(codec, codec), compression_level=level)
        self.id_bytes = sum(entry_bytes(column.type.value_type) for column in columns)
        """What an id, and what is parallel to it, takes before it is encoded."""
        self._rows: list[TokenRow] = []
        self._ids: list[int] = []
        self._tokens = 0
        self._made: dict[str, list[Page]] = {}

    def add(self, rows: Sequence[TokenRow], ids: Sequence[int]) -> None:
        """Take rows with so many ids; a page ends before the one that would make it too large."""
        for row, count in zip(rows, ids, strict=True):
            if self._rows and self._tokens + count > PAGE_TOKENS:
                self._end_page()
            self._rows.append(row)
            self._ids.append(count)
            self._tokens += count

    def end(self) -> dict[str, list[Page]]:
        """All pages since the last end, by column."""
        self._end_page()
        made, self._made = self._made, {}
        return made

    def _end_page(self) -> None:
        for column in self._columns:
            made = page_of(
                token_values(self._rows, column, self._ids),
                nullable=column.nullable,
                encoding=column.encoding or "",
                codec=self._codec,
            )
            self._made.setdefault(column.name, []).append(made)
        self._rows, self._ids, self._tokens = [], [], 0


def _empty_lists(rows: int, kind: pa.DataType) -> pa.Array:
    empty = pa.array([], kind.value_type)
    return pa.ListArray.from_arrays(pa.array(np.zeros(rows + 1, np.int32)), empty, type=kind)


def _writer(
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

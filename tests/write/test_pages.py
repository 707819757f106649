"""The token columns' pages, which are made here, say to every reader what the rows say."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from promptmill.pipeline.write import groups, parquet
from promptmill.pipeline.write.batches import record_batch
from promptmill.pipeline.write.parts import PartWriter
from promptmill.pipeline.write.thrift import Struct, decode, encode
from promptmill.schemas.columns import COLUMNS
from promptmill.schemas.options import JobOptions
from promptmill.schemas.request import TokenRow

MakeOptions = Callable[..., JobOptions]
MakeRow = Callable[..., TokenRow]
TOKENS = ("input_ids", "offset_mapping", "assistant_masks", "labels")


def footer(path: Path) -> bytes:
    content = path.read_bytes()
    assert content[:4] == content[-4:] == b"PAR1"
    return content[-8 - int.from_bytes(content[-8:-4], "little") : -8]


def offsets(draw: np.random.Generator, kind: str, size: int) -> np.ndarray | None:
    if kind == "absent":
        return None
    if kind == "wild":
        return draw.integers(-(2**31), 2**31, (size, 2), dtype=np.int32)
    ends = draw.integers(0, 9, size).cumsum() if size else np.zeros(0)
    return np.stack([ends - draw.integers(0, 5, size), ends], axis=1).astype(np.int32)


@st.composite
def token_fields(draw: st.DrawFn) -> dict[str, Any]:
    """What a row of any size may hold in its token columns; sometimes it is padded."""
    size = draw(st.one_of(st.integers(0, 3), st.sampled_from([31, 32, 33, 64, 65, 128, 700])))
    numbers = np.random.default_rng(draw(st.integers(0, 2**32)))
    padding = draw(st.sampled_from([0, 0, 3]))
    mask = numbers.integers(0, 2, size, dtype=np.int8) if draw(st.booleans()) else None
    kind = draw(st.sampled_from(["steps", "steps", "wild", "absent"]))
    ids = numbers.integers(0, draw(st.sampled_from([200, 2**18, 2**31])), size + padding)
    return {"ids": ids.astype(np.int32), "offsets": offsets(numbers, kind, size), "mask": mask}


@settings(
    max_examples=60,
    deadline=None,
    # The fixtures only name files, which are written over; the machine may be busy.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    drawn=st.lists(token_fields(), min_size=1, max_size=12),
    page=st.sampled_from([1, 100, 1000]),
    group=st.sampled_from([3, 100]),
    codec=st.sampled_from(["zstd", "none"]),
)
def test_every_reader_finds_what_the_rows_hold(
    tmp_path: Path,
    make_options: MakeOptions,
    make_row: MakeRow,
    monkeypatch: pytest.MonkeyPatch,
    drawn: list[dict[str, Any]],
    page: int,
    group: int,
    codec: str,
) -> None:
    monkeypatch.setattr(parquet, "PAGE_TOKENS", page)
    monkeypatch.setattr(groups, "GROUP_ROWS", group)
    options = make_options(with_mask=True, columns="hf", compression=codec)
    rows = [make_row(n, 0, spans=(), **fields) for n, fields in enumerate(drawn)]
    path = tmp_path / "part.parquet"
    path.unlink(missing_ok=True)
    with PartWriter(path, options=options, metadata={}) as part:
        part.write(rows)
    expected = pa.Table.from_batches([record_batch(rows, options)])
    found = pq.read_table(path)
    found.validate(full=True)
    assert found.equals(expected)
    # The first reader goes through levels one page at a time, these two by ways of their own.
    assert pl.read_parquet(path).select(TOKENS).to_dict(as_series=False) == {
        name: expected[name].to_pylist() for name in TOKENS
    }
    with duckdb.connect() as connection:
        columns = ", ".join(TOKENS)
        read = connection.execute(f"select {columns} from read_parquet('{path}')").fetchall()
    assert [list(row) for row in read] == [
        [row[name] for name in TOKENS] for row in expected.to_pylist()
    ]


def test_the_footer_describes_the_file(
    tmp_path: Path, make_options: MakeOptions, make_row: MakeRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "PAGE_TOKENS", 50)
    monkeypatch.setattr(groups, "GROUP_ROWS", 4)
    path = tmp_path / "part"
    options = make_options(with_text=True)
    with PartWriter(path, options=options, metadata={}) as part:
        part.write([make_row(index, 20) for index in range(10)])
    facts = pq.ParquetFile(path).metadata
    assert (facts.num_rows, facts.num_row_groups) == (10, 3)
    place = len(b"PAR1")
    for number in range(facts.num_row_groups):
        group = facts.row_group(number)
        chunks = [group.column(n) for n in range(group.num_columns)]
        assert group.total_byte_size == sum(chunk.total_uncompressed_size for chunk in chunks)
        for chunk in chunks:
            first = chunk.data_page_offset
            if chunk.has_dictionary_page:
                first = min(first, chunk.dictionary_page_offset)
            assert first == place
            place += chunk.total_compressed_size
    assert place + len(footer(path)) + 8 == path.stat().st_size
    ids = facts.row_group(0).column(4)
    assert (ids.path_in_schema, ids.num_values) == ("prompt_token_ids.list.element", 80)
    assert ids.compression == "ZSTD"
    row_group = decode(footer(path)).structs(4)[0]
    leaves = [column for column in COLUMNS for _ in column.leaves(options.columns)]
    assert len(row_group.structs(1)) == len(leaves) - 2  # no mask, no labels


def test_a_footer_that_is_read_is_written_the_same(tmp_path: Path) -> None:
    path = tmp_path / "other.parquet"
    columns = {f"column {n}": [n, None, 1.5 * n] for n in range(40)}
    table = pa.table({**columns, "flags": [True, None, False], "text": ["a", "", None]})
    pq.write_table(table, path, sorting_columns=[pq.SortingColumn(0)], write_page_index=True)
    content = footer(path)
    read = decode(content)
    assert read.number(3) == 3
    assert isinstance(read, Struct)
    assert encode(read) == content

"""A part holds its rows column by column, and the same rows give the same bytes."""

import hashlib
import itertools
import resource
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec.structs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from promptmill.pipeline.write import groups
from promptmill.pipeline.write.parts import PartInfo, PartWriter
from promptmill.schemas.columns import COLUMNS, arrow_schema
from promptmill.schemas.errors import ErrorCode, JobError, RowError, Stage
from promptmill.schemas.options import ColumnNames, JobOptions, OutputFormat
from promptmill.schemas.request import TokenRow

MakeOptions = Callable[..., JobOptions]
MakeRow = Callable[..., TokenRow]
FORMATS = tuple(OutputFormat)


def write(path: Path, options: JobOptions, *batches: Sequence[TokenRow]) -> PartInfo:
    path.unlink(missing_ok=True)
    with PartWriter(path, options=options, metadata={"fingerprint": "f", "a": "b"}) as part:
        for batch in batches:
            part.write(batch)
        return part.close()


def read(path: Path, options: JobOptions) -> pa.Table:
    if options.format is OutputFormat.PARQUET:
        return pq.read_table(path)
    with pa.ipc.open_file(path) as reader:
        return reader.read_all()


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("names", ["vllm", "hf"])
def test_every_column_comes_back(
    tmp_path: Path, make_options: MakeOptions, make_row: MakeRow, kind: OutputFormat, names: str
) -> None:
    options = make_options(with_text=True, with_mask=True, columns=names, format=kind)
    path = tmp_path / f"part.{kind}"
    info = write(path, options, [make_row(3, 4, prompt_index=1)])
    table = read(path, options)
    full: dict[str, Any] = {
        "custom_id": "row-3",
        "source": "in/file.jsonl",
        "row_index": 3,
        "prompt_index": 1,
        "prompt_token_ids": [100_000, 100_001, 100_002, 100_003],
        "prompt_token_offsets": [[0, 1], [1, 2], [2, 3], [3, 4]],
        "prompt": "éééé",
        "num_tokens": 4,
        "original_num_tokens": 7,
        "num_chars": 4,
        "truncated": True,
        "truncated_left": 3,
        "truncated_right": 0,
        "max_tokens": 16,
        "mm_placeholders": [
            {
                "modality": "image",
                "offset": 1,
                "length": 2,
                "index": 0,
                "hash": "hash",
                "grid": [1, 2, 2],
                "embed_runs": [{"offset": 0, "length": 1}],
            }
        ],
        "assistant_mask": [0, 1, 0, 1],
        "request": '{"temperature":0.5}',
        "warnings": ["one", "two"],
    }
    hf = {
        "prompt_token_ids": "input_ids",
        "prompt_token_offsets": "offset_mapping",
        "prompt": "text",
        "num_tokens": "length",
        "assistant_mask": "assistant_masks",
    }
    expected = {hf.get(k, k) if names == "hf" else k: v for k, v in full.items()}
    if names == "hf":
        expected |= {"labels": [-100, -100, -100, 100_003]}  # the span is two ids long
    assert table.to_pylist() == [expected]
    assert table.column_names == arrow_schema(options).names
    assert table.schema.equals(arrow_schema(options))
    assert table.schema.metadata == {b"promptmill.a": b"b", b"promptmill.fingerprint": b"f"}
    content = path.read_bytes()
    assert info == PartInfo(1, 4, len(content), hashlib.sha256(content).hexdigest())


def test_columns_follow_from_the_options(make_options: MakeOptions) -> None:
    every = [column.name for column in COLUMNS]
    default = arrow_schema(make_options()).names
    assert default == [n for n in every if n not in {"prompt", "assistant_mask", "labels"}]
    full = arrow_schema(make_options(task="train", with_text=True, columns="hf"))
    assert full.names == [column.name_in(ColumnNames.HF) for column in COLUMNS]
    assert "labels" in arrow_schema(make_options(columns="hf")).names
    assert "labels" not in arrow_schema(make_options(columns="hf", task="pooling")).names
    assert "prompt_token_offsets" not in arrow_schema(make_options(with_offsets=False)).names


@pytest.mark.parametrize("kind", FORMATS)
def test_rows_that_lack_things_have_the_same_schema(
    tmp_path: Path, make_options: MakeOptions, make_row: MakeRow, kind: OutputFormat
) -> None:
    options = make_options(with_text=True, with_mask=True, format=kind)
    bare = make_row(
        0,
        text=None,
        offsets=None,
        mask=None,
        spans=(),
        max_tokens=None,
        warnings=(),
        truncated_left=0,
        passthrough={},
    )
    paths = [tmp_path / name for name in ("full", "bare", "empty")]
    write(paths[0], options, [make_row(0)])
    write(paths[1], options, [bare])
    assert write(paths[2], options).rows == 0
    full, lacking, empty = (read(path, options) for path in paths)
    assert full.schema.equals(lacking.schema, check_metadata=True)
    assert full.schema.equals(empty.schema, check_metadata=True)
    assert empty.num_rows == 0
    row = lacking.to_pylist()[0]
    nothing = ("prompt", "num_chars", "prompt_token_offsets", "assistant_mask", "max_tokens")
    assert all(row[name] is None for name in nothing)
    assert (row["mm_placeholders"], row["warnings"], row["request"]) == ([], [], "{}")
    assert row["truncated"] is False


def test_padding_has_entries_too(
    tmp_path: Path, make_options: MakeOptions, make_row: MakeRow
) -> None:
    options = make_options(with_mask=True)
    row = make_row(0, 4)
    padded = msgspec.structs.replace(row, ids=np.append(row.ids, np.zeros(2, np.int32)))
    write(tmp_path / "part", options, [row, padded, row])
    table = read(tmp_path / "part", options)
    offsets = [[0, 1], [1, 2], [2, 3], [3, 4]]
    assert table["prompt_token_offsets"].to_pylist() == [
        offsets,
        [*offsets, [0, 0], [0, 0]],
        offsets,
    ]
    assert table["assistant_mask"].to_pylist() == [[0, 1, 0, 1], [0, 1, 0, 1, 0, 0], [0, 1, 0, 1]]


def test_request_keeps_the_order_of_keys_and_is_json(
    tmp_path: Path, make_options: MakeOptions, make_row: MakeRow
) -> None:
    asked = {"z": 1, "a": {"é": [None, True]}, "seed": 10**30, "nan": float("nan")}
    write(tmp_path / "part", make_options(), [make_row(0, passthrough=asked)])
    found = pq.read_table(tmp_path / "part")["request"].to_pylist()
    assert found == ['{"z":1,"a":{"é":[null,true]},"seed":' + str(10**30) + ',"nan":null}']


@pytest.mark.parametrize(
    "broken",
    [
        {"custom_id": "\ud800"},
        {"text": "a\udfff"},
        {"warnings": ("\ud800",)},
        {"passthrough": {"stop": "\ud800"}},
    ],
)
def test_a_string_that_is_no_text_is_refused_and_the_part_goes_on(
    tmp_path: Path, make_options: MakeOptions, make_row: MakeRow, broken: dict[str, Any]
) -> None:
    path = tmp_path / "part"
    with PartWriter(path, options=make_options(with_text=True), metadata={}) as part:
        part.write([make_row(0)])
        with pytest.raises(RowError, match=r"Row 2 of 'in/file\.jsonl'") as caught:
            part.write([make_row(1), make_row(2, **broken), make_row(3)])
        part.write([make_row(4)])
    assert (caught.value.code, caught.value.stage) == (ErrorCode.LONE_SURROGATE, Stage.WRITE)
    assert pq.read_table(path)["row_index"].to_pylist() == [0, 4]


def test_ids_of_another_type_are_not_cut_to_fit(
    tmp_path: Path, make_options: MakeOptions, make_row: MakeRow
) -> None:
    wide = make_row(0, ids=np.array([2**40]))
    with (
        pytest.raises(TypeError),
        PartWriter(tmp_path / "part", options=make_options(), metadata={}) as part,
    ):
        part.write([wide])
    assert not (tmp_path / "part").exists()


def test_offsets_longer_than_ids_do_not_run_into_the_next_row(
    tmp_path: Path, make_options: MakeOptions, make_row: MakeRow
) -> None:
    longer = make_row(0, offsets=np.zeros((6, 2), np.int32))
    with (
        pytest.raises(ValueError, match="broadcast"),
        PartWriter(tmp_path / "part", options=make_options(), metadata={}) as part,
    ):
        part.write([longer, make_row(1)])


@pytest.mark.parametrize("kind", FORMATS)
def test_abort_leaves_nothing(
    tmp_path: Path, make_options: MakeOptions, make_row: MakeRow, kind: OutputFormat
) -> None:
    part = PartWriter(tmp_path / "part", options=make_options(format=kind), metadata={})
    part.write([make_row(0)])
    part.abort()
    part.abort()
    assert list(tmp_path.iterdir()) == []
    part = PartWriter(tmp_path / "part", options=make_options(format=kind), metadata={})
    assert part.close() == part.close()
    part.abort()
    assert list(tmp_path.iterdir()) == []


@contextmanager
def full_disk() -> Iterator[None]:
    """Within it files cannot grow beyond 4 KB, so never where pytest may write its own report."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("group", [10, 2**30])
def test_a_full_disk_is_an_error_and_leaves_nothing(
    tmp_path: Path,
    make_options: MakeOptions,
    make_row: MakeRow,
    monkeypatch: pytest.MonkeyPatch,
    kind: OutputFormat,
    group: int,
) -> None:
    monkeypatch.setattr(groups, "GROUP_BYTES", group)
    options = make_options(format=kind, compression="none")
    with (
        full_disk(),
        pytest.raises(OSError, match="File too large"),
        PartWriter(tmp_path / "part", options=options, metadata={}) as part,
    ):
        part.write([make_row(index, 10_000) for index in range(3)])
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_not_touched(tmp_path: Path, make_options: MakeOptions) -> None:
    path = tmp_path / "part"
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        PartWriter(path, options=make_options(), metadata={})
    assert path.read_text() == "mine"


@pytest.mark.parametrize("codec", ["zstd", "lz4", "snappy", "gzip", "none"])
@pytest.mark.parametrize("kind", FORMATS)
def test_compressions(
    tmp_path: Path, make_options: MakeOptions, make_row: MakeRow, kind: OutputFormat, codec: str
) -> None:
    options = make_options(compression=codec, format=kind)
    path = tmp_path / "part"
    if kind is OutputFormat.ARROW and codec in {"snappy", "gzip"}:
        with pytest.raises(JobError, match="zstd, lz4, none"):
            PartWriter(path, options=options, metadata={})
        assert not path.exists()
    else:
        write(path, options, [make_row(0)])
        assert read(path, options).num_rows == 1


def test_parquet_encodings(tmp_path: Path, make_options: MakeOptions, make_row: MakeRow) -> None:
    path = tmp_path / "part"
    write(path, make_options(with_text=True, with_mask=True), [make_row(0)])
    group = pq.ParquetFile(path).metadata.row_group(0)
    chunks = {(c := group.column(n)).path_in_schema: c for n in range(group.num_columns)}
    tokens = {
        "prompt_token_ids.list.element": "BYTE_STREAM_SPLIT",
        "prompt_token_offsets.list.element.list.element": "DELTA_BINARY_PACKED",
        "assistant_mask.list.element": "DELTA_BINARY_PACKED",
    }
    for leaf, encoding in tokens.items():
        assert set(chunks[leaf].encodings) == {"RLE", encoding}
        assert chunks[leaf].statistics is None
    assert {chunk.compression for chunk in chunks.values()} == {"ZSTD"}
    assert chunks["num_tokens"].statistics.max == 5
    assert chunks["source"].has_dictionary_page


ABSENT: dict[str, Any] = {
    "text": None,
    "offsets": None,
    "mask": None,
    "spans": (),
    "max_tokens": None,
    "warnings": (),
    "passthrough": {},
}


def split(rows: Sequence[TokenRow], cuts: Sequence[int]) -> Iterator[Sequence[TokenRow]]:
    for start, stop in itertools.pairwise([0, *sorted(cuts), len(rows)]):
        yield rows[start:stop]


@pytest.mark.parametrize("kind", FORMATS)
@settings(
    max_examples=40,
    deadline=None,
    # The fixtures only name files, which are written over; the machine may be busy.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_bytes_depend_on_the_rows_only(
    tmp_path: Path,
    make_options: MakeOptions,
    make_row: MakeRow,
    monkeypatch: pytest.MonkeyPatch,
    kind: OutputFormat,
    data: st.DataObject,
) -> None:
    monkeypatch.setattr(groups, "GROUP_ROWS", 7)
    monkeypatch.setattr(groups, "GROUP_BYTES", 400)
    options = make_options(with_text=True, with_mask=True, format=kind)
    sizes = data.draw(st.lists(st.integers(1, 40), max_size=30))
    absent = st.lists(st.sampled_from(list(ABSENT)), unique=True).map(
        lambda names: {name: ABSENT[name] for name in names}
    )
    rows = [make_row(index, size, **data.draw(absent)) for index, size in enumerate(sizes)]
    cuts = data.draw(st.lists(st.integers(0, len(rows))))
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    one, other = write(whole, options, rows), write(cut, options, *split(rows, cuts))
    assert one == other
    assert whole.read_bytes() == cut.read_bytes()
    assert read(whole, options)["num_tokens"].to_pylist() == sizes


def test_row_groups_are_bounded_in_rows_and_bytes(
    tmp_path: Path, make_options: MakeOptions, make_row: MakeRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "part"
    rows = [make_row(index, 10, spans=(), warnings=()) for index in range(10)]
    rows[4] = make_row(4, 1000)
    cost = 10 * 12 + len("row-0") + len("in/file.jsonl") + len('{"temperature":0.5}')
    monkeypatch.setattr(groups, "GROUP_ROWS", 4)
    monkeypatch.setattr(groups, "GROUP_BYTES", 3 * cost)
    write(path, make_options(), rows)
    counts = pq.ParquetFile(path).metadata
    found = [counts.row_group(n).num_rows for n in range(counts.num_row_groups)]
    assert found == [3, 1, 1, 3, 2]
    monkeypatch.setattr(groups, "GROUP_ROWS", 4)
    monkeypatch.setattr(groups, "GROUP_BYTES", 10 * cost)
    write(path, make_options(), rows[5:])
    counts = pq.ParquetFile(path).metadata
    assert [counts.row_group(n).num_rows for n in range(counts.num_row_groups)] == [4, 1]


def test_memory_is_that_of_a_group_not_of_the_part(
    tmp_path: Path, make_options: MakeOptions, make_row: MakeRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "GROUP_ROWS", 65_536)
    monkeypatch.setattr(groups, "GROUP_BYTES", 2**20)
    before, peaks = pa.total_allocated_bytes(), []
    with PartWriter(tmp_path / "part", options=make_options(), metadata={}) as part:
        for batch in range(40):
            part.write([make_row(batch, 20_000)])
            peaks.append(pa.total_allocated_bytes() - before)
    assert max(peaks) < 6 * 2**20


def test_no_python_object_is_made_for_a_token(
    tmp_path: Path, make_options: MakeOptions, make_row: MakeRow
) -> None:
    tokens = 500_000
    rows = [make_row(index, tokens // 50) for index in range(50)]
    options = make_options(with_mask=True)
    write(tmp_path / "warm", options, rows)
    with PartWriter(tmp_path / "part", options=options, metadata={}) as part:
        tracemalloc.start()
        part.write(rows)
        part.close()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    # The flat buffers take 4 + 8 + 1 bytes a token; an int and its place in a list take 36.
    assert peak < 16 * tokens

"""Small columnar files that unpack to large rows: such a row is a reject, the others are kept."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command import CLI
from promptmill.pipeline.read import cells
from promptmill.pipeline.read.cells import records
from promptmill.pipeline.read.sizes import row_sizes
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import Json

MODEL = Path(__file__).resolve().parents[2] / "static" / "demo" / "model"
BIG = "x" * 5000


def list_view(values: pa.Array, sizes: list[int]) -> pa.Array:
    return pa.ListViewArray.from_arrays(pa.array([0] * len(sizes), pa.int32()), sizes, values)


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["a", BIG, "b"]),
        pa.array(["a", BIG, "b"], pa.large_string()),
        pa.array(["a", BIG, "b"], pa.string_view()),
        pa.array([b"a", BIG.encode(), b"b"]),
        pa.array(["0", "a", BIG, "b"]).dictionary_encode().slice(1),
        pa.DictionaryArray.from_arrays([0, 1, None], pa.array(["a", BIG])),
        pa.RunEndEncodedArray.from_arrays([1, 2, 4], ["a", BIG, "b"]).slice(0, 2),
        pa.array([[1], [1] * 1000, None]),
        pa.array([[None], [None] * 1000, []], pa.list_(pa.null())),
        pa.array([["a"], [BIG], []], pa.large_list(pa.string())),
        pa.array([[{"a": "b"}], [{"a": BIG}], [None]]),
        pa.array([[("k", "v")], [("k", BIG)], None], pa.map_(pa.string(), pa.string())),
        pa.array([["a"], [BIG], None], pa.list_(pa.string(), 1)),
        list_view(pa.array([1] * 1000), [1, 1000, 2]),
        list_view(list_view(pa.array(["abc"] * 9), [9] * 100), [2, 100, 2]),
        pa.ExtensionArray.from_storage(pa.json_(), pa.array(["1", BIG, "2"])),
    ],
    ids=lambda array: str(array.type),
)
def test_a_row_over_the_limit_is_told_before_it_is_decoded(
    array: pa.Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "MAX_LINE_BYTES", 4000)
    monkeypatch.setattr(cells, "CHUNK_BYTES", 4000)
    first, error, *_ = found = list(records(pa.RecordBatch.from_arrays([array], ["x"])))
    assert len(found) == len(array)
    assert not any(isinstance(row, RowError) for row in (first, *found[2:]))
    assert isinstance(error, RowError)
    assert error.code is ErrorCode.LINE_TOO_LONG
    assert "the limit is 4000" in error.message


TYPES = [
    pa.string(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.list_(pa.string()),
    pa.list_(pa.list_(pa.string())),
    pa.list_view(pa.list_(pa.string())),
    pa.list_(pa.struct([("a", pa.string()), ("b", pa.list_(pa.int8()))])),
    pa.map_(pa.string(), pa.list_(pa.string())),
]


def values(kind: pa.DataType) -> st.SearchStrategy[object]:
    if pa.types.is_map(kind):
        made: st.SearchStrategy[object] = st.lists(
            st.tuples(st.text(max_size=3), values(kind.item_type)), max_size=3
        )
    elif pa.types.is_struct(kind):
        made = st.fixed_dictionaries({f.name: values(f.type) for f in kind})
    elif pa.types.is_list(kind) or pa.types.is_list_view(kind):
        made = st.lists(values(kind.value_type), max_size=3)
    else:
        made = st.integers(0, 9) if pa.types.is_integer(kind) else st.text(max_size=9)
    return st.none() | made


@settings(deadline=None)
@given(st.data())
@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_no_row_is_larger_than_its_size(kind: pa.DataType, data: st.DataObject) -> None:
    column = pa.array(data.draw(st.lists(values(kind), max_size=8)), kind)
    batch = pa.RecordBatch.from_arrays([column], ["x"])
    sizes = row_sizes(batch).tolist()
    assert len(sizes) == len(column)
    for index, row in enumerate(records(batch)):
        assert not isinstance(row, RowError)
        assert text_bytes(row.get("x")) <= sizes[index]
        assert sizes[index] == pytest.approx(row_sizes(batch.slice(index, 1))[0])


def text_bytes(value: Json) -> int:
    if isinstance(value, dict):
        return sum(len(k.encode()) + text_bytes(v) for k, v in value.items())
    if isinstance(value, list):
        return sum(map(text_bytes, value))
    return len(value.encode()) if isinstance(value, str) else 0


@pytest.mark.parametrize(
    "where", [["--local"], pytest.param(["--workers", "1"], marks=pytest.mark.ray)]
)
def test_a_run_over_bombs_keeps_the_other_rows(where: list[str], tmp_path: Path) -> None:
    giant = "x" * (200 << 20)
    for name, texts in {"a": ["hello", giant, "world"], "c": ["hello", "world"]}.items():
        table = pa.table({"text": pa.array(texts)})
        pq.write_table(table, tmp_path / f"{name}.parquet", compression="zstd")
    write_boast(tmp_path / "b.arrow")
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1 << 20
    names = [argument for n in ("a.parquet", "b.arrow", "c.parquet") for argument in ("-i", n)]
    words = ["run", *names, "-o", "out", "--model", str(MODEL), "--text-column", "text", *where]
    done = subprocess.run(
        [*CLI, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "7 prompts in, 4 rows out" in done.stdout + done.stderr
    lines = [
        json.loads(line)
        for path in sorted((tmp_path / "out" / "_promptmill" / "rejects").iterdir())
        for line in path.read_text().splitlines()
    ]
    found = [(line["source"], line["row_index"], line["error"]["code"]) for line in lines]
    assert found == [
        ("a.parquet", 1, "line_too_long"),
        ("b.arrow", 0, "memory_exceeded"),
        ("b.arrow", 1, "memory_exceeded"),
    ]
    assert "row group or record batch" in lines[1]["error"]["message"]


def write_boast(path: Path) -> None:
    """Two rows whose compressed values say that they unpack to a terabyte."""
    table = pa.table({"text": ["hello " * 100, "world"]})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(path, table.schema, options=options) as file:
        file.write_table(table)
    stored = bytearray(path.read_bytes())
    length = stored.index((605).to_bytes(8, "little"))
    stored[length : length + 8] = (1 << 40).to_bytes(8, "little")
    path.write_bytes(stored)

"""Parquet and Arrow IPC: rows as JSON objects, every row accounted for, in bounded memory."""

import datetime
import decimal
import hashlib
import io
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from promptmill.pipeline.read import rows as rows_module
from promptmill.pipeline.read import scan
from promptmill.pipeline.read.cells import records
from promptmill.pipeline.read.columnar import UnitSize
from promptmill.pipeline.read.cuts import ShardSize, cut_units
from promptmill.pipeline.read.plan import plan_input
from promptmill.pipeline.read.rows import ShardReader
from promptmill.schemas.errors import ErrorCode, JobError, RowError

ROWS = [
    {
        "custom_id": f"row-{n}",
        "messages": [{"role": "user", "content": f"text {n}"}] * (n % 4),
        "tools": '[{"type": "function"}]' if n % 3 else None,
    }
    for n in range(100)
]
EXPECTED = [{k: v for k, v in row.items() if v is not None} for row in ROWS]


def write_parquet(path: Path, table: pa.Table, unit: int = 30) -> None:
    pq.write_table(table, path, row_group_size=unit, write_page_checksum=True)


def write_file(path: Path, table: pa.Table, unit: int = 30) -> None:
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table, max_chunksize=unit)


def write_stream(path: Path, table: pa.Table, unit: int = 30) -> None:
    with pa.ipc.new_stream(path, table.schema) as file:
        file.write_table(table, max_chunksize=unit)


def write_compressed(path: Path, table: pa.Table, unit: int = 30) -> None:
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(path, table.schema, options=options) as file:
        file.write_table(table, max_chunksize=unit)


WRITERS: dict[str, tuple[str, Callable[..., None]]] = {
    "parquet": ("in.parquet", write_parquet),
    "arrow file": ("in.arrow", write_file),
    "arrow stream": ("in.arrow", write_stream),
    "compressed arrow": ("in.arrow", write_compressed),
}
every_format = pytest.mark.parametrize(("name", "write"), WRITERS.values(), ids=WRITERS)


@every_format
@pytest.mark.parametrize("rows_per_shard", [1, 7, 30, 60, 99, 1000])
def test_rows_come_back_whatever_the_shards(
    name: str, write: Callable[..., None], rows_per_shard: int, tmp_path: Path, read
) -> None:
    write(tmp_path / name, pa.Table.from_pylist(ROWS))
    plan, rows = read(tmp_path / name, rows_per_shard=rows_per_shard)
    assert [row.data for row in rows] == EXPECTED
    assert {row.source for row in rows} == {name}
    assert all(shard.rows == rows_per_shard for shard in plan.shards[:-1])


@every_format
def test_shards_by_bytes_are_whole_units(name, write, tmp_path: Path, read) -> None:
    write(tmp_path / name, pa.Table.from_pylist(ROWS))
    assert len(read(tmp_path / name)[0].shards) == 1
    plan, rows = read(tmp_path / name, shard_bytes=1)
    assert [row.data for row in rows] == EXPECTED
    assert [(s.first_row, s.rows, s.skip) for s in plan.shards] == [
        (0, 30, 0),
        (30, 30, 0),
        (60, 30, 0),
        (90, 10, 0),
    ]


@given(
    units=st.lists(st.builds(UnitSize, st.integers(0, 9), st.integers(1, 99)), max_size=12),
    size=st.integers(1, 150),
    rows=st.none() | st.integers(1, 20),
)
def test_slices_of_units_cover_all_rows_once(
    units: list[UnitSize], size: int, rows: int | None
) -> None:
    slices = cut_units(units, ShardSize(size, rows))
    starts = [sum(unit.rows for unit in units[:index]) for index in range(len(units) + 1)]
    at = 0
    for part in slices:
        assert part.first_row == at == starts[part.start] + part.skip
        at += part.rows
        assert starts[part.stop - 1] < at <= starts[part.stop]
        assert rows is None or part.rows == rows or part is slices[-1]
        stored = sum(unit.size for unit in units[part.start : part.stop])
        assert rows is not None or stored <= size or part.stop - part.start == 1
    assert at == starts[-1]


@every_format
def test_empty_tables_give_no_shard_and_say_so(name, write, tmp_path: Path, read) -> None:
    write(tmp_path / name, pa.Table.from_pylist(ROWS).slice(0, 0))
    (tmp_path / f"zero-{name}").touch()
    plan, rows = read(tmp_path)
    assert (rows, len(plan.shards)) == ([], 0)
    assert [file.name for file in plan.files] == [name, f"zero-{name}"]
    assert plan.content[f"zero-{name}"] == hashlib.sha256(b"").hexdigest()
    assert plan.warnings == (f"{name} has no rows.", f"zero-{name} is empty.")


def test_a_large_record_batch_is_warned_about(tmp_path: Path, read, monkeypatch) -> None:
    monkeypatch.setattr(scan, "LARGE_BATCH_BYTES", 1000)
    write_file(tmp_path / "in.arrow", pa.Table.from_pylist(ROWS), unit=100)
    (warning,) = read(tmp_path)[0].warnings
    assert "in.arrow has a record batch of" in warning


@every_format
def test_the_hash_is_of_what_was_read(name, write, tmp_path: Path, job) -> None:
    path = tmp_path / name
    write(path, pa.Table.from_pylist(ROWS))
    options = job(path, rows_per_shard=30)
    plan = plan_input(options)
    assert plan.content == {name: hashlib.sha256(path.read_bytes()).hexdigest()}

    def hashes() -> list[str]:
        readers = [ShardReader(shard, options) for shard in plan.shards]
        assert all(list(reader) and reader.bytes_read > 100 for reader in readers)
        return [reader.sha256() for reader in readers]

    before = hashes()
    assert before == hashes()
    assert len(set(before)) == 4


def test_dictionaries_belong_to_every_batch_after_them(tmp_path: Path, read) -> None:
    path = tmp_path / "in.arrow"
    kind = pa.dictionary(pa.int8(), pa.string())
    with pa.ipc.new_stream(path, pa.schema([("role", kind)])) as stream:
        for words in (["a", "b"], ["c", "b", None], ["d"]):
            stream.write_table(pa.table({"role": pa.array(words).cast(kind)}))
    _, rows = read(path, rows_per_shard=1)
    assert [row.data.get("role") for row in rows] == ["a", "b", "c", "b", None, "d"]


def test_a_null_is_an_absent_key_but_in_lists_and_maps(tmp_path: Path, read) -> None:
    schema = pa.schema(
        [
            (
                "messages",
                pa.list_(pa.struct([("role", pa.string()), ("calls", pa.list_(pa.int8()))])),
            ),
            ("body", pa.struct([("n", pa.int64()), ("inner", pa.struct([("x", pa.int64())]))])),
            ("list", pa.list_(pa.string())),
            ("map", pa.map_(pa.string(), pa.int64())),
            ("nothing", pa.null()),
        ]
    )
    values = [
        {
            "messages": [{"role": "user", "calls": None}, None, {"role": None, "calls": [1, None]}],
            "body": {"n": None, "inner": {"x": None}},
            "list": ["a", None],
            "map": [("k", 1), ("empty", None)],
        },
        {"messages": [], "body": None, "list": None, "map": None},
        {"messages": None, "body": {"n": 0, "inner": None}, "list": [], "map": []},
    ]
    write_parquet(tmp_path / "in.parquet", pa.Table.from_pylist(values, schema), unit=2)
    _, rows = read(tmp_path / "in.parquet", rows_per_shard=1)
    assert [row.data for row in rows] == [
        {
            "messages": [{"role": "user"}, None, {"calls": [1, None]}],
            "body": {"inner": {}},
            "list": ["a", None],
            "map": {"k": 1, "empty": None},
        },
        {"messages": []},
        {"body": {"n": 0}, "list": [], "map": {}},
    ]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array(['{"a": 1}']), '{"a": 1}'),
        (pa.array(["x"], pa.large_string()), "x"),
        (pa.array(["x"], pa.string_view()), "x"),
        (pa.array(["x"]).dictionary_encode(), "x"),
        (pa.RunEndEncodedArray.from_arrays([1], ["x"]), "x"),
        (pa.array([b"\x89PNG"]), b"\x89PNG"),
        (pa.array([b"\x89PNG"], pa.binary(4)), b"\x89PNG"),
        (pa.array([True]), True),
        (pa.array([2**63], pa.uint64()), 2**63),
        (pa.array([1.5], pa.float16()), 1.5),
        (pa.array([decimal.Decimal("0.70")]), 0.7),
        (pa.array([decimal.Decimal(10**30)]), 10**30),
        (pa.array([[1, 2]], pa.list_(pa.int64(), 2)), [1, 2]),
        (pa.array([[1, 2]], pa.large_list(pa.int64())), [1, 2]),
        (pa.array([[1, 2]], pa.list_view(pa.int64())), [1, 2]),
        (pa.array([datetime.date(2024, 1, 2)]), "2024-01-02"),
        (pa.array([1], pa.timestamp("ns", tz="UTC")), "1970-01-01 00:00:00.000000001Z"),
        (pa.array([[1]], pa.list_(pa.duration("s"))), ["1"]),
        (
            pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16))),
            str(uuid.UUID(bytes=b"0" * 16)),
        ),
        (pa.ExtensionArray.from_storage(pa.json_(), pa.array(["[1]"])), "[1]"),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_every_type_becomes_a_json_value_or_bytes(array: pa.Array, expected: object) -> None:
    (row,) = records(pa.RecordBatch.from_arrays([array], ["x"]))
    assert row == {"x": expected}
    assert type(row["x"]) is type(expected)


def test_one_value_that_is_no_utf8_costs_one_row(tmp_path: Path, read) -> None:
    values = pa.array([b"a", b"\xff", b"c"])
    text = pa.Array.from_buffers(pa.string(), 3, values.buffers())
    write_stream(tmp_path / "in.arrow", pa.table({"id": ["0", "1", "2"], "prompt": text}))
    first, bad, last = read(tmp_path / "in.arrow")[1]
    assert (first.data, last.data) == ({"id": "0", "prompt": "a"}, {"id": "2", "prompt": "c"})
    assert (bad.row_index, bad.data) == (1, None)
    assert bad.error.code is ErrorCode.INVALID_UTF8


def test_a_corrupt_row_group_loses_its_rows_and_no_other(tmp_path: Path, read) -> None:
    path = tmp_path / "in.parquet"
    write_parquet(path, pa.Table.from_pylist(ROWS))
    column = pq.ParquetFile(path).metadata.row_group(1).column(0)
    stored = bytearray(path.read_bytes())
    middle = column.data_page_offset + column.total_compressed_size // 2
    stored[middle : middle + 4] = b"\xff\x00\xff\x00"
    path.write_bytes(stored)
    for options in ({}, {"shard_bytes": 1}, {"rows_per_shard": 7}):
        _, rows = read(path, **options)
        assert [row.data for row in rows] == EXPECTED[:30] + [None] * 30 + EXPECTED[60:]
        assert rows[30].error.code is ErrorCode.UNREADABLE_INPUT
        assert "30 rows of row group 1 of in.parquet" in rows[30].error.message


def test_a_corrupt_record_batch_loses_its_rows_and_no_other(tmp_path: Path, read) -> None:
    path = tmp_path / "in.arrow"
    write_compressed(path, pa.Table.from_pylist(ROWS))
    stored = bytearray(path.read_bytes())
    frame = b"\x28\xb5\x2f\xfd"
    at = len(stored) // 2
    at = stored.index(frame, at)
    stored[at : at + 4] = b"none"
    path.write_bytes(stored)
    rows = read(path, rows_per_shard=9)[1]
    lost = [row.row_index for row in rows if row.error is not None]
    assert len(lost) == 30
    assert [row.data or EXPECTED[row.row_index] for row in rows] == EXPECTED


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.999])
@every_format
def test_a_truncated_file_is_refused_at_once(name, write, keep: float, tmp_path, job) -> None:
    path = tmp_path / name
    write(path, pa.Table.from_pylist(ROWS))
    stored = path.read_bytes()
    path.write_bytes(stored[: int(len(stored) * keep)])
    with pytest.raises(JobError, match=f"{name} cannot be read as"):
        plan_input(job(path))


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
    max_examples=40,
    derandomize=True,  # pyarrow itself aborts on a very few corrupt Parquet footers
)
@given(st.data())
@every_format
def test_corrupt_files_are_refused_or_every_row_is_accounted_for(
    name, write, tmp_path: Path, read, monkeypatch, data
) -> None:
    path = tmp_path / name
    write(path, pa.Table.from_pylist(ROWS[:20]), unit=8)
    monkeypatch.setattr(scan, "LARGEST_UNIT_ROWS", 1000)
    stored = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        stored[data.draw(st.integers(0, len(stored) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(stored)
    try:
        rows = read(path, rows_per_shard=5)[1]
    except JobError:
        return
    assert all((row.data is None) == isinstance(row.error, RowError) for row in rows)


def test_real_files(shared: Path, read, job) -> None:
    paths = sorted((shared / "data" / "badfiles" / "parquet").glob("*.parquet"))
    unreadable = [path for path in paths if path.name == "bad_data__PARQUET-1481.parquet"]
    for path in unreadable:
        with pytest.raises(JobError, match="cannot be read as Parquet"):
            plan_input(job(path))
    for path in (path for path in paths if path not in unreadable):
        plan, rows = read(path, rows_per_shard=3)
        footer = pq.read_metadata(path)
        groups = [footer.row_group(index).num_rows for index in range(footer.num_row_groups)]
        assert len(rows) == plan.rows == sum(groups)
        corrupt = path.name.startswith(("bad_data", "data__datapage_v1-corrupt"))
        assert any(row.error is not None for row in rows) == corrupt


@every_format
@pytest.mark.parametrize("error", [TimeoutError("no answer"), OSError(5, "input/output error")])
def test_a_storage_that_fails_is_no_corrupt_file(
    name, write, error: OSError, tmp_path: Path, job, monkeypatch
) -> None:
    path = tmp_path / name
    write(path, pa.Table.from_pylist(ROWS))
    options = job(path, rows_per_shard=70)
    (_, shard) = plan_input(options).shards

    class Failing(io.BytesIO):
        reads = 0

        def read(self, size: int | None = -1, /) -> bytes:
            Failing.reads += 1
            if Failing.reads > 5:
                raise error
            return super().read(size)

    monkeypatch.setattr(rows_module, "open_input", lambda url: Failing(path.read_bytes()))
    with pytest.raises(type(error), match=r"answer|input/output"):
        list(ShardReader(shard, options))


@pytest.mark.parametrize("unit", [1 << 20, 1000])
def test_a_large_row_group_is_never_held_whole(unit: int, tmp_path: Path, job) -> None:
    path = tmp_path / "in.parquet"
    texts = [f"{n:06} " * 500 for n in range(20_000)]
    pq.write_table(
        pa.table({"prompt": texts}),
        path,
        row_group_size=unit,
        use_dictionary=False,
        compression="none",
    )
    del texts
    options = job(path)
    before = pa.total_allocated_bytes()
    held = 0
    for shard in plan_input(options).shards:
        for row in ShardReader(shard, options):
            assert row.data is not None
            held = max(held, pa.total_allocated_bytes() - before)
    assert path.stat().st_size > 60 << 20
    assert held < 16 << 20

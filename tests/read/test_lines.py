"""JSONL: lines end at a newline byte and nowhere else, whatever the shards and blocks."""

import hashlib
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from promptmill.pipeline.read import lines, rows, scan
from promptmill.pipeline.read.lines import MAX_LINE_BYTES, line_rows
from promptmill.pipeline.read.plan import plan_input
from promptmill.pipeline.read.rows import ShardReader, read_shard
from promptmill.schemas.errors import ErrorCode, JobError
from promptmill.schemas.reject import HEAD_BYTES

PIECES = st.sampled_from(
    [b"\n", b"\n\n", b"\r\n", b"\r", "\u2028".encode(), b"\x0b", b"\x85", b'{"a":1}', b"x", b"\xff"]
)
CONTENT = st.lists(PIECES, max_size=40).map(b"".join)


def lines_of(content: bytes) -> list[bytes]:
    """The rule, said once more: what lies between newlines; nothing after the last is no line."""
    pieces = content.split(b"\n")
    return pieces if pieces[-1] else pieces[:-1]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # one folder does for all
@given(content=CONTENT, size=st.integers(1, 60), block=st.integers(1, 30))
def test_lines_are_the_same_whatever_the_cuts(content, size, block, tmp_path, read) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "BLOCK_BYTES", block)
        patch.setattr(scan, "SCAN_BLOCK_BYTES", block)
        by_bytes = read(path, shard_bytes=size)[1]
        plan, by_rows = read(path, rows_per_shard=size)
    assert [row.data for row in by_bytes] == lines_of(content)
    assert by_bytes == by_rows == read(path)[1]
    for row in by_bytes:
        assert row.byte_range is not None
        assert content[slice(*row.byte_range)] == row.data
    assert all(shard.rows == size for shard in plan.shards[:-1])
    assert [shard.start for shard in plan.shards[1:]] == [s.stop for s in plan.shards[:-1]]


@given(content=CONTENT.filter(bool), size=st.integers(1, 60))
def test_shards_by_bytes_are_even_but_for_one_line(content, size) -> None:
    slices = scan.cut_lines([content], len(content), scan.ShardSize(size))
    longest = max(map(len, lines_of(content)), default=0) + 1
    assert all(part.stop - part.start < size + longest for part in slices)
    assert len(slices) <= -(-len(content) // size)


def test_every_shard_gives_the_hash_of_its_bytes(tmp_path, job) -> None:
    path = tmp_path / "in.jsonl"
    content = b"".join(b'{"row": %d}\n' % n for n in range(500))
    path.write_bytes(content)
    options = job(path, shard_bytes=1000)
    plan = plan_input(options)
    assert plan.content == {"in.jsonl": hashlib.sha256(content).hexdigest()}
    assert len(plan.shards) > 5
    for shard in plan.shards:
        reader = ShardReader(shard, options)
        with pytest.raises(RuntimeError, match="read to its end"):
            reader.sha256()
        assert list(reader) == list(read_shard(shard, options))
        assert reader.sha256() == hashlib.sha256(content[shard.start : shard.stop]).hexdigest()
        assert reader.bytes_read == shard.stop - shard.start


@pytest.mark.parametrize("block", [7, 64, 1000])
def test_a_line_over_the_limit_is_an_error_with_its_place_and_head(block, monkeypatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 8000)
    content = b"a\n" + b"y" * 8000 + b"\n" + b"0123456789" * 801 + b"\nb\n" + b"z" * 8001
    blocks = (content[start : start + block] for start in range(0, len(content), block))
    short, whole, long, after, last = line_rows(blocks, "in.jsonl", 10, 100)
    assert (short.data, len(whole.data), after.data) == (b"a", 8000, b"b")
    assert long.data is None
    assert long.row_index == 12
    assert long.byte_range == (100 + 8003, 100 + 8003 + 8010)
    assert long.head == (b"0123456789" * 801)[:HEAD_BYTES]
    assert long.error.code is ErrorCode.LINE_TOO_LONG
    assert long.error.value == 8010
    assert "line 13 of in.jsonl" in long.error.message
    assert "8000" in long.error.message
    assert last.error.code is ErrorCode.LINE_TOO_LONG
    assert last.head == b"z" * HEAD_BYTES


def test_a_line_of_200_mb_is_never_held(tmp_path, job) -> None:
    path = tmp_path / "in.jsonl"
    block = b"x" * (1 << 20)
    with path.open("wb") as file:
        file.write(b'{"first": 1}\n{"long": "')
        for _ in range(200):
            file.write(block)
        file.write(b'"}\n{"last": 1}\n')
    options = job(path)
    tracemalloc.start()
    plan = plan_input(options)
    first, long, last = (row for shard in plan.shards for row in read_shard(shard, options))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (first.data, last.data) == (b'{"first": 1}', b'{"last": 1}')
    assert long.error.code is ErrorCode.LINE_TOO_LONG
    assert long.byte_range == (13, 13 + 12 + (200 << 20))
    assert peak < 2.5 * MAX_LINE_BYTES


def peak_of(items: Iterator[object]) -> int:
    tracemalloc.start()
    for _ in items:
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_does_not_grow_with_the_file(tmp_path, job) -> None:
    peaks = []
    for size in (4, 40):
        path = tmp_path / f"{size}.jsonl"
        with path.open("wb") as file:
            for _ in range(size):
                file.write((b"x" * 1023 + b"\n") * 1024)
        options = job(path, shard_bytes=1 << 30)
        (shard,) = plan_input(options).shards
        peaks.append(peak_of(read_shard(shard, options)))
    assert peaks[1] < 1.2 * peaks[0] < 10 << 20


def test_a_byte_order_mark_at_the_start_is_no_content(tmp_path, read) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\n\xef\xbb\xbf{"b": 2}\n')
    first, second = read(path, rows_per_shard=1)[1]
    assert (first.data, first.byte_range) == (b'{"a": 1}', (3, 11))
    assert second.data == b'\xef\xbb\xbf{"b": 2}'


@pytest.mark.parametrize("new", [b'{"a": 1}\n', b'{"a":\n1}\n{"b": 2}\n\n'])
def test_a_file_that_changed_since_the_plan_is_noticed(new, tmp_path, job) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"a": 1}\n{"b": 2} \n')
    options = job(path)
    (shard,) = plan_input(options).shards
    path.write_bytes(new)
    with pytest.raises(JobError, match="changed since the run was planned"):
        list(read_shard(shard, options))


def test_what_is_no_jsonl_is_told_at_once(tmp_path, read) -> None:
    (tmp_path / "array.json").write_bytes(b'[\n{"a": 1}\n]\n')
    (tmp_path / "pretty.json").write_bytes(b'{\n  "a": 1\n}\n')
    (tmp_path / "wide.jsonl").write_bytes('{"a": 1}\n'.encode("utf-16"))
    plan, _ = read(tmp_path)
    array, pretty, wide = plan.warnings
    assert array.startswith("array.json looks like one JSON document")
    assert pretty.startswith("pretty.json looks like one JSON document")
    assert wide.startswith("wide.jsonl is UTF-16")


def test_chat_rows_come_back_as_they_are(shared: Path, read) -> None:
    path = shared / "data" / "chat_small.jsonl"
    plan, found = read(path, shard_bytes=50_000)
    assert b"\n".join(row.data for row in found) == path.read_bytes().removesuffix(b"\n")
    assert len(plan.shards) > 1

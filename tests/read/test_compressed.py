"""Compressed JSONL: all members, and every sound line of a file that breaks."""

import gzip
import hashlib
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from promptmill.pipeline.read import scan
from promptmill.pipeline.read.lines import MAX_LINE_BYTES
from promptmill.pipeline.read.plan import plan_input
from promptmill.pipeline.read.rows import ShardReader, read_shard
from promptmill.schemas.errors import ErrorCode, JobError

CODECS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}
both = pytest.mark.parametrize("codec", CODECS)
one_folder = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15, deadline=None
)
LONG = MAX_LINE_BYTES + (16 << 20)


def text_of(count: int, seed: int = 0) -> bytes:
    """Lines that compress to about half."""
    source = random.Random(seed)
    return b"".join(b'{"n": %d, "x": "%x"}\n' % (n, source.getrandbits(99)) for n in range(count))


@both
def test_all_members_are_read_as_one_stream(codec: str, tmp_path: Path, read, job) -> None:
    content = text_of(3000)
    parts = (content[:5], content[5:70_000], b"", content[70_000:])
    stored = b"".join(map(CODECS[codec], parts))
    path = tmp_path / f"in.jsonl.{codec}"
    path.write_bytes(stored)
    plan, rows = read(path, rows_per_shard=1000)
    assert b"".join(row.data + b"\n" for row in rows) == content
    assert content[slice(*rows[2000].byte_range)] == rows[2000].data
    assert len(plan.shards) == 1
    assert any("--rows-per-shard" in text for text in plan.warnings)
    reader = ShardReader(plan.shards[0], job(path))
    assert len(list(reader)) == 3000
    assert reader.sha256() == plan.content[path.name] == hashlib.sha256(stored).hexdigest()
    assert reader.bytes_read == len(stored)


@both
@one_folder
@given(cut=st.floats(0.01, 0.99))
def test_a_truncated_file_gives_all_its_lines_and_one_error(
    codec: str, cut: float, tmp_path: Path, read
) -> None:
    content = text_of(400)
    stored = CODECS[codec](content[:3000]) + CODECS[codec](content[3000:])
    path = tmp_path / f"in.jsonl.{codec}"
    path.write_bytes(stored[: int(len(stored) * cut)])
    *sound, broken = read(path)[1]
    assert b"".join(row.data + b"\n" for row in sound) == content[: broken.byte_range[0]]
    assert broken.data is None
    assert broken.error.code is ErrorCode.UNREADABLE_INPUT
    assert "too early" in broken.error.message
    assert path.name in broken.error.message
    assert broken.head == content[slice(*broken.byte_range)]


@both
@one_folder
@given(place=st.floats(0.1, 0.99), small=st.booleans())
def test_corrupt_bytes_do_not_take_the_lines_before_them_along(
    codec: str, place: float, small: bool, tmp_path: Path, read
) -> None:
    content = text_of(200 if small else 3000)
    first = CODECS[codec](content)
    path = tmp_path / f"in.jsonl.{codec}"
    second = bytearray(first)
    at = int(len(second) * place)
    second[at : at + 8] = b"\xff" * 8
    path.write_bytes(first + second)
    *sound, broken = read(path)[1]
    assert b"".join(row.data + b"\n" for row in sound).startswith(content)
    assert broken.error.code is ErrorCode.UNREADABLE_INPUT
    assert "corrupt" in broken.error.message


def test_the_last_sound_byte_before_a_break_is_found(tmp_path: Path, read) -> None:
    lines = [b'{"n": %d}' % n for n in range(5000)]
    stored = gzip.compress(b"\n".join(lines[:4000]) + b"\n") + b"no gzip member"
    path = tmp_path / "in.jsonl.gz"
    path.write_bytes(stored)
    *sound, broken = read(path)[1]
    assert [row.data for row in sound] == lines[:4000]
    assert (broken.row_index, broken.head) == (4000, b"")

    deflated = bytearray(gzip.compress(b"\n".join(lines), compresslevel=0))
    deflated[10 + 5 + 20_000] ^= 1  # stored, not packed: only the checksum can tell
    path.write_bytes(deflated)
    rows = read(path)[1]
    assert len(rows) == 5000
    assert rows[-1].error.code is ErrorCode.UNREADABLE_INPUT
    assert rows[-1].head == lines[-1]


def test_padding_behind_gzip_members_is_no_content(tmp_path: Path, read) -> None:
    path = tmp_path / "in.jsonl.gz"
    member = gzip.compress(b"{}\n")
    path.write_bytes(member + b"\0" * 100_000 + member + b"\0" * 512)
    assert [row.data for row in read(path)[1]] == [b"{}", b"{}"]


def test_a_long_window_is_read(tmp_path: Path, read) -> None:
    params = zstandard.ZstdCompressionParameters(window_log=31, enable_ldm=True)
    compressor = zstandard.ZstdCompressor(compression_params=params).compressobj()
    path = tmp_path / "in.jsonl.zst"
    path.write_bytes(compressor.compress(b"{}\n" * 9) + compressor.flush())
    assert len(read(path)[1]) == 9


@both
def test_a_line_that_unpacks_to_too_much_is_never_held(codec: str, tmp_path: Path, job) -> None:
    path = tmp_path / f"in.jsonl.{codec}"
    path.write_bytes(CODECS[codec](b"0" * LONG + b"\n{}\n"))
    options = job(path)
    tracemalloc.start()
    (shard,) = plan_input(options).shards
    long, last = read_shard(shard, options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert long.error.code is ErrorCode.LINE_TOO_LONG
    assert long.error.value == LONG
    assert last.data == b"{}"
    assert peak < 2.5 * MAX_LINE_BYTES


@both
def test_what_is_not_compressed_is_refused(codec: str, tmp_path: Path, job) -> None:
    path = tmp_path / f"in.jsonl.{codec}"
    path.write_bytes(b'{"prompt": "x"}\n')
    with pytest.raises(JobError, match=r"holds something else\. Name it after what it is"):
        plan_input(job(path))


def test_large_compressed_files_are_warned_about(tmp_path: Path, read, monkeypatch) -> None:
    monkeypatch.setattr(scan, "LARGE_COMPRESSED_BYTES", 1000)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(text_of(10)))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(text_of(100)))
    warnings = read(tmp_path)[0].warnings
    assert len(warnings) == 1
    assert "b.jsonl.gz" in warnings[0]
    assert "one shard" in warnings[0]


@both
def test_a_stream_without_content_says_so(codec: str, tmp_path: Path, read) -> None:
    (tmp_path / f"in.jsonl.{codec}").write_bytes(CODECS[codec](b""))
    plan, rows = read(tmp_path)
    assert (rows, plan.warnings) == ([], (f"in.jsonl.{codec} has no rows.",))


def test_real_files(shared: Path, read) -> None:
    bad = shared / "data" / "badfiles"
    assert len(read(bad / "gz" / "HumanEval.twomember.jsonl.gz")[1]) == 328
    *sound, broken = read(bad / "gz" / "HumanEval.truncated.jsonl.gz")[1]
    assert 50 < len(sound) < 164
    assert broken.error.code is ErrorCode.UNREADABLE_INPUT
    assert len(read(bad / "zstd" / "gsm8k_test.jsonl.zst")[1]) == 1319


@pytest.mark.parametrize(
    ("name", "size"),
    [("block-128k", 131_068), ("empty-block", 0), ("rle-first-block", 1 << 20), ("zeroSeq_2B", 13)],
)
def test_odd_but_valid_frames(name: str, size: int, shared: Path, tmp_path: Path, read) -> None:
    stored = shared / "data" / "badfiles" / "zstd" / f"golden-decompression__{name}.zst"
    path = tmp_path / "in.jsonl.zst"
    path.write_bytes(stored.read_bytes())
    rows = read(path)[1]
    unpacked = rows[-1].byte_range[1] if rows else 0
    assert size - 1 <= unpacked <= size  # a newline at the end is in no row
    assert all(row.error is None for row in rows)


def test_an_invalid_frame_is_one_error(shared: Path, tmp_path: Path, read) -> None:
    stored = shared / "data" / "badfiles" / "zstd" / "golden-decompression-errors__off0.bin.zst"
    path = tmp_path / "in.jsonl.zst"
    path.write_bytes(stored.read_bytes())
    (row,) = read(path)[1]
    assert row.error.code is ErrorCode.UNREADABLE_INPUT

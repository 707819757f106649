"""One pass over an input file: its hash, its rows, and where it is cut into shards."""

from __future__ import annotations

import hashlib
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Final

from promptmill.pipeline.read.arrow import record_batches
from promptmill.pipeline.read.compressed import decompressed, has_magic
from promptmill.pipeline.read.cuts import ShardSize, Slice, cut_lines, cut_units
from promptmill.pipeline.read.files import HashedFile, blocks, open_input
from promptmill.pipeline.read.lines import BrokenStreamError
from promptmill.pipeline.read.parquet import row_groups
from promptmill.schemas.errors import JobError
from promptmill.schemas.shard import InputCompression, InputFile, InputKind

SCAN_BLOCK_BYTES: Final = 8 << 20
LARGE_COMPRESSED_BYTES: Final = 64 << 20
"""Stored bytes of a compressed file above which its being one shard is worth a warning."""

LARGEST_UNIT_ROWS: Final = 1 << 24
"""Rows of a row group or record batch above which its number of rows is not believed."""

LARGE_BATCH_BYTES: Final = 512 << 20
"""Stored bytes of an Arrow record batch above which holding it in memory is worth a warning."""

_LOOK_BYTES: Final = 64
_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class FileScan:
    """What a pass over a file found."""

    sha256: str
    """Of its stored bytes, hexadecimal."""
    slices: tuple[Slice, ...]
    """In order, without gaps; none where the file has no rows."""
    warnings: tuple[str, ...] = ()


def scan_file(file: InputFile, wanted: ShardSize) -> FileScan:
    """Read a file once, in constant memory. Depends on the file and `wanted` only.

    Plain JSONL is cut at line ends. Parquet is cut between row groups and Arrow between record
    batches, of which one may be larger than wanted; by rows they are cut anywhere. A compressed
    file is one slice, whatever is wanted.

    Raises:
        JobError: the file cannot be read, is not what its name says, or is being written to.
    """
    if file.size == 0:
        return FileScan(hashlib.sha256().hexdigest(), (), (f"{file.name} is empty.",))
    try:
        with closing(open_input(file.url)) as raw:
            start = raw.read(_LOOK_BYTES)
            raw.seek(0)
            scan = _scan(file, HashedFile(raw), wanted, start)
    except OSError as error:
        raise JobError(
            f"{file.url} cannot be read: {error}. Make it readable, or leave it out of the input."
        ) from error
    return scan


def _scan(file: InputFile, stored: HashedFile, wanted: ShardSize, start: bytes) -> FileScan:
    if file.kind is not InputKind.JSONL:
        return _scan_columnar(file, stored, wanted)
    if file.compression is not InputCompression.NONE:
        return _scan_compressed(file, stored, wanted, start)
    slices = cut_lines(blocks(stored, SCAN_BLOCK_BYTES), file.size, wanted)
    return FileScan(_whole_hash(file, stored), slices, _odd_start(file, start))


def _scan_columnar(file: InputFile, stored: HashedFile, wanted: ShardSize) -> FileScan:
    for _ in blocks(stored, SCAN_BLOCK_BYTES):
        pass
    sha256 = _whole_hash(file, stored)
    stored.seek(0)
    list_units = row_groups if file.kind is InputKind.PARQUET else record_batches
    units = list_units(stored, file.name)
    largest = max((unit.rows for unit in units), default=0)
    if largest > LARGEST_UNIT_ROWS:
        raise JobError(
            f"{file.url} says that one row group or record batch has {largest} rows; the limit is "
            f"{LARGEST_UNIT_ROWS}. Write it in smaller ones, or leave it out if it is corrupt."
        )
    slices = cut_units(units, wanted)
    warnings = [] if slices else [f"{file.name} has no rows."]
    size = max((unit.size for unit in units), default=0)
    if file.kind is InputKind.ARROW and size > LARGE_BATCH_BYTES:
        warnings.append(
            f"{file.name} has a record batch of {size >> 20} MB, which a worker holds in memory "
            "whole. Write it in smaller ones to need less."
        )
    return FileScan(sha256, slices, tuple(warnings))


def _scan_compressed(
    file: InputFile, stored: HashedFile, wanted: ShardSize, start: bytes
) -> FileScan:
    if not has_magic(start, file.compression):
        raise JobError(
            f"{file.url} is named as {file.compression} but holds something else. Name it after "
            "what it is, or leave it out of the input."
        )
    warnings = []
    lines = 0
    ended = True
    try:
        for block in decompressed(stored, file.compression, partial(open_input, file.url)):
            lines += block.count(b"\n")
            ended = block.endswith(b"\n")
    except BrokenStreamError as broken:
        warnings.append(f"{file.name} is broken after line {lines}: {broken}.")
        ended = False  # the break is a row of its own
    rows = lines + (not ended)
    if not rows:
        warnings.append(f"{file.name} has no rows.")
    if file.size > LARGE_COMPRESSED_BYTES:
        warnings.append(
            f"{file.name} is compressed ({file.size >> 20} MB) and can only be one shard, which "
            "one worker reads alone. Decompress it or split it to use more workers."
        )
    elif wanted.rows is not None and rows > wanted.rows:
        warnings.append(
            f"{file.name} is compressed and stays one shard of {rows} rows: --rows-per-shard "
            "does not cut it. Decompress it to have it cut."
        )
    slices = (Slice(0, file.size, 0, rows),) if rows else ()
    return FileScan(_whole_hash(file, stored), slices, tuple(warnings))


def _whole_hash(file: InputFile, stored: HashedFile) -> str:
    if stored.bytes_read != file.size:
        raise JobError(
            f"{file.url} had {file.size} bytes when it was listed and has {stored.bytes_read} now. "
            "Start again when nothing writes to it."
        )
    return stored.sha256()


def _odd_start(file: InputFile, start: bytes) -> tuple[str, ...]:
    """What the first bytes of a JSONL file say about why none of its lines will be a request."""
    if start.startswith(_UTF16_MARKS):
        return (f"{file.name} is UTF-16. Rows must be UTF-8: iconv -f utf-16 -t utf-8 FILE",)
    line = start.lstrip().partition(b"\n")[0].rstrip()
    if line.startswith(b"[") or line == b"{":
        return (
            f"{file.name} looks like one JSON document. If it is, write one object per line: "
            "jq -c '.[]' FILE for an array, jq -c . FILE for an object.",
        )
    return ()

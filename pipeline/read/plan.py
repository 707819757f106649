"""The plan of a run: which files, cut into which shards. The same wherever and by whomever made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from promptmill.pipeline.read.cuts import ShardSize
from promptmill.pipeline.read.inputs import find_inputs
from promptmill.pipeline.read.scan import FileScan, scan_file
from promptmill.schemas.options import JobOptions
from promptmill.schemas.shard import InputFile, Plan, Shards

SHARDS_WANTED: Final = 4_000
SMALLEST_SHARD_BYTES: Final = 8 << 20
LARGEST_SHARD_BYTES: Final = 1 << 30
"""Bounds of the shard size that is taken where the user gives none."""


def plan_input(options: JobOptions) -> Plan:
    """Find the input files, read each once and cut them into shards.

    The same in parts, where the reading is to be spread: `find_inputs`, `shard_size`, `scan_file`
    for each file, `make_plan`.

    Raises:
        JobError: an input is missing, unreadable or nothing that is read; says what to do.
    """
    found = find_inputs(options.input)
    wanted = shard_size(found.files, options)
    return make_plan(found.files, (scan_file(file, wanted) for file in found.files), found.warnings)


def shard_size(files: Iterable[InputFile], options: JobOptions) -> ShardSize:
    """How large shards are to be: as the options say, else by the size of the whole input."""
    even = sum(file.size for file in files) // SHARDS_WANTED
    size = min(max(even, SMALLEST_SHARD_BYTES), LARGEST_SHARD_BYTES)
    return ShardSize(options.shard_bytes or size, options.rows_per_shard)


def make_plan(
    files: Sequence[InputFile], scans: Iterable[FileScan], warnings: Sequence[str] = ()
) -> Plan:
    """Number the slices of all files through.

    Args:
        files: in input order.
        scans: one for each, in the same order.
        warnings: of finding them; those of the scans follow.
    """
    shards = Shards(tuple(files))
    content: dict[str, str] = {}
    said = list(warnings)
    for number, (file, scan) in enumerate(zip(files, scans, strict=True)):
        for part in scan.slices:
            shards.append(number, *part)
        content[file.name] = scan.sha256
        said += scan.warnings
    return Plan(tuple(files), shards, content, tuple(said))

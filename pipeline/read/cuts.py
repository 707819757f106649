"""Where files are cut into shards: at line ends, between row groups and record batches."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import numpy as np

from promptmill.pipeline.read.columnar import UnitSize

_NEWLINE: Final = ord("\n")


@dataclass(frozen=True, slots=True)
class ShardSize:
    """What a shard should hold: exactly `rows` rows where given, else about `size` stored bytes."""

    size: int
    rows: int | None = None


class Slice(NamedTuple):
    """A shard without its number and file; fields as in `Shard`."""

    start: int
    stop: int
    first_row: int
    rows: int
    skip: int = 0


class _Cut(NamedTuple):
    at: int
    row: int


def cut_lines(blocks: Iterable[bytes], size: int, wanted: ShardSize) -> tuple[Slice, ...]:
    """Cut JSONL at line ends.

    By bytes: as few parts as `wanted.size` allows, all of the same length but for the lines that
    their borders fall into, which stay with the part before.

    Args:
        blocks: the file, cut anywhere.
        size: its length in bytes, at least 1.
        wanted: what a slice should hold.
    """
    cuts = [_Cut(0, 0)]
    part = -(-size // -(-size // wanted.size))
    at = rows = 0
    ended = True
    for block in blocks:
        if wanted.rows is None:
            _cut_at_bytes(cuts, block, at, rows, part)
        else:
            _cut_at_rows(cuts, block, at, rows, wanted.rows)
        at += len(block)
        rows += _line_ends(block)
        ended = block.endswith(b"\n")
    if cuts[-1].at < at:
        cuts.append(_Cut(at, rows + (not ended)))
    return tuple(Slice(a.at, b.at, a.row, b.row - a.row) for a, b in pairwise(cuts))


def _cut_at_bytes(cuts: list[_Cut], block: bytes, at: int, rows: int, part: int) -> None:
    """Cut a block, which starts at byte `at` and row `rows`, where multiples of `part` are over."""
    place = 0
    while (border := (cuts[-1].at // part + 1) * part - at) <= len(block):
        end = block.find(b"\n", max(border - 1, 0)) + 1
        if not end:
            return
        rows += _line_ends(block, place, end)
        place = end
        cuts.append(_Cut(at + end, rows))


def _line_ends(block: bytes, start: int = 0, stop: int | None = None) -> int:
    """How many there are; `bytes.count` takes four times as long."""
    return int(np.count_nonzero(np.frombuffer(block, np.uint8)[start:stop] == _NEWLINE))


def _cut_at_rows(cuts: list[_Cut], block: bytes, at: int, rows: int, each: int) -> None:
    """Cut a block, which starts at byte `at` and row `rows`, after every `each` rows."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE)
    for number in range(each - 1 - rows % each, len(ends), each):
        cuts.append(_Cut(at + int(ends[number]) + 1, rows + number + 1))


def cut_units(units: Sequence[UnitSize], wanted: ShardSize) -> tuple[Slice, ...]:
    """Cut a columnar file between its units, or by rows anywhere.

    By bytes: units are gathered while they fit; one that is larger is a slice of its own. By rows:
    a slice may start inside a unit, whose first `skip` rows its reader decodes and drops.
    """
    starts = [0, *accumulate(unit.rows for unit in units)]
    if wanted.rows is None:
        borders = [starts[index] for index in _gathered(units, wanted.size)]
    else:
        borders = [*range(0, starts[-1], wanted.rows), starts[-1]]
    slices = []
    for first, stop in pairwise(borders):
        unit = bisect_right(starts, first) - 1
        slices.append(
            Slice(unit, bisect_left(starts, stop), first, stop - first, skip=first - starts[unit])
        )
    return tuple(one for one in slices if one.rows)


def _gathered(units: Sequence[UnitSize], size: int) -> list[int]:
    """Unit numbers at which slices start, and the end."""
    borders = [0]
    held = 0
    for index, unit in enumerate(units):
        if held and held + unit.size > size:
            borders.append(index)
            held = 0
        held += unit.size
    return [*borders, len(units)]

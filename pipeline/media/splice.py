"""Putting replacements into a prompt, with everything that runs parallel to its ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from promptmill.pipeline.media.base import Join, Joins, Replacement
from promptmill.pipeline.media.match import Match
from promptmill.schemas.media import MediaSpan
from promptmill.schemas.request import Ids, Mask, Offsets

Positions: TypeAlias = npt.NDArray[np.intp]
"""Indices into ids, rising."""


@dataclass(frozen=True, slots=True)
class Expanded:
    """A prompt with its media expanded. `offsets` and `mask` may lack padding on the right."""

    ids: Ids
    offsets: Offsets | None = None
    """Ids of a span point at the characters of their placeholder."""
    mask: Mask | None = None
    """0 inside spans."""
    spans: tuple[MediaSpan, ...] = ()
    """In the order of their offsets."""


def splice(row: Expanded, parts: Iterable[tuple[Match, Replacement]]) -> Expanded:
    """`row` with each match replaced; the matches are in order and do not overlap."""
    ids: list[Ids] = []
    offsets: list[Offsets] = []
    mask: list[Mask] = []
    done = 0
    for match, replacement in parts:
        length = len(replacement.ids)
        ids += [row.ids[done : match.start], replacement.ids]
        if row.offsets is not None:
            pair = placeholder_pair(row.offsets, match)
            offsets += [row.offsets[done : match.start], np.tile(pair, (length, 1))]
        if row.mask is not None:
            mask += [row.mask[done : match.start], np.zeros(length, np.int8)]
        done = match.stop
    return replace(
        row,
        ids=np.concatenate([*ids, row.ids[done:]]),
        offsets=None if row.offsets is None else np.concatenate([*offsets, row.offsets[done:]]),
        mask=None if row.mask is None else np.concatenate([*mask, row.mask[done:]]),
    )


def collapse(
    row: Expanded, placeholders: Sequence[Sequence[int]], joins: Joins | None = None
) -> Expanded:
    """`row` with each span as the ids of its placeholder again; spans say where those are.

    Args:
        row: a prompt with its media expanded.
        placeholders: for each span, in order, the ids that stood for its item.
        joins: applied when it was expanded; text that grew into a span is parted from it.
    """
    parts: list[tuple[Match, Replacement]] = []
    spans: list[MediaSpan] = []
    grown = 0
    for number, (span, ids) in enumerate(zip(row.spans, placeholders, strict=True)):
        before, after = ([], []) if joins is None else _parted(row, number, joins)
        start = max(span.offset, parts[-1][0].stop if parts else 0)
        match = Match(number, start, end_of(span))
        parts.append((match, Replacement(np.array([*before, *ids, *after], np.int32))))
        offset = start + grown + len(before)
        spans.append(replace(span, offset=offset, length=len(ids), embed_runs=()))
        grown += len(before) + len(ids) + len(after) - (match.stop - match.start)
    return replace(splice(row, parts), spans=tuple(spans))


def _parted(row: Expanded, number: int, joins: Joins) -> tuple[list[int], list[int]]:
    """Ids of the text that grew into a span in front of it and behind it."""
    span = row.spans[number]
    stop = end_of(span)
    first, last = int(row.ids[span.offset]), int(row.ids[stop - 1])
    shares_first = number > 0 and end_of(row.spans[number - 1]) > span.offset
    shares_last = number + 1 < len(row.spans) and row.spans[number + 1].offset < stop
    steps, border = joins.steps, joins.border
    before = [j.left for j in steps if j.merged == first and j.right == border]
    after = [j.right for j in steps if j.merged == last and j.left == border]
    return [] if shares_first else before, [] if shares_last else after


def end_of(span: MediaSpan) -> int:
    """Index behind a span's last id."""
    return span.offset + span.length


def placeholder_pair(offsets: Offsets, match: Match) -> Offsets:
    """The characters of a placeholder, shape (2,); an insertion points before its next id."""
    if match.start == match.stop:
        start = offsets[match.start, 0] if match.start < len(offsets) else 0
        return np.array([start, start], np.int32)
    return np.array([offsets[match.start, 0], offsets[match.stop - 1, 1]], np.int32)


def append_id(row: Expanded, token_id: int) -> Expanded:
    """`row` with one more id; it stands for no character."""
    offsets, mask = row.offsets, row.mask
    if offsets is not None and len(offsets) == len(row.ids):
        end = offsets[-1, 1] if len(offsets) else 0
        offsets = np.concatenate([offsets, np.array([[end, end]], np.int32)])
    if mask is not None and len(mask) == len(row.ids):
        mask = np.append(mask, np.int8(0))
    return replace(row, ids=np.append(row.ids, np.int32(token_id)), offsets=offsets, mask=mask)


def join_all(row: Expanded, joins: Joins) -> Expanded:
    """Let replacements grow together with what is beside them.

    A span keeps its length and starts at the id its first id went into: neighbours that join
    across their border overlap by one.
    """
    for join in joins.steps:
        row = _join(row, join)
    return row


def _join(row: Expanded, join: Join) -> Expanded:
    if len(row.ids) < 2:
        return row
    pairs: Positions = np.flatnonzero((row.ids[:-1] == join.left) & (row.ids[1:] == join.right))
    if not len(pairs):
        return row
    if join.left == join.right:
        pairs = _without_overlap(pairs)
    gone = pairs + 1
    ids = row.ids.copy()
    ids[pairs] = join.merged
    offsets, mask = row.offsets, row.mask
    if offsets is not None:
        inside = pairs[gone < len(offsets)]
        offsets = offsets.copy()
        offsets[inside, 1] = offsets[inside + 1, 1]
        offsets = np.delete(offsets, inside + 1, axis=0)
    if mask is not None:
        inside = pairs[gone < len(mask)]
        mask = mask.copy()
        mask[inside] = np.minimum(mask[inside], mask[inside + 1])
        mask = np.delete(mask, inside + 1)
    moved = (replace(s, offset=s.offset - _at_most(gone, s.offset)) for s in row.spans)
    return Expanded(np.delete(ids, gone), offsets, mask, tuple(moved))


def _at_most(positions: Positions, bound: int) -> int:
    """How many of the sorted positions are at most `bound`."""
    return int(np.searchsorted(positions, bound, side="right"))


def _without_overlap(pairs: Positions) -> Positions:
    """Of the starts of equal neighbours, those that a search from the left would take."""
    kept: list[int] = []
    for start in pairs.tolist():
        if not kept or start > kept[-1] + 1:
            kept.append(start)
    return np.array(kept, np.intp)

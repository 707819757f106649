"""Which characters became which ids."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from promptmill.schemas.request import CharSpan


class TokenKind(StrEnum):
    """What an id is there for."""

    TEXT = "text"
    CONTROL = "control"
    MEDIA = "media"
    PADDING = "padding"


class SegmentKind(StrEnum):
    """What became of some characters."""

    TEXT = "text"
    CONTROL = "control"
    MEDIA = "media"
    CUT = "cut"
    """Their ids were cut."""
    DROPPED = "dropped"
    """The tokenizer makes nothing of them."""


@dataclass(frozen=True, slots=True)
class TokenView:
    """One id of a prompt."""

    index: int
    id: int
    piece: str
    """What it decodes to by itself."""
    offsets: CharSpan | None
    kind: TokenKind
    in_mask: bool


@dataclass(frozen=True, slots=True)
class Segment:
    """Characters that belong to the same ids."""

    start: int
    stop: int
    kind: SegmentKind
    tokens: tuple[int, int] | None = None
    """First and last index of those ids; None where there are none."""
    in_mask: bool = False


def segments(
    length: int, tokens: Sequence[TokenView], *, cut_left: bool, cut_right: bool
) -> Iterator[Segment]:
    """A text of `length` code points, from start to end.

    Args:
        length: of the text.
        tokens: of the prompt.
        cut_left: whether ids were cut there; characters before the first kept one are theirs.
        cut_right: likewise.
    """
    placed = [t for t in tokens if t.offsets is not None and t.offsets[0] < t.offsets[1]]
    starts = [t.offsets[0] for t in placed if t.offsets is not None]
    stops = [t.offsets[1] for t in placed if t.offsets is not None]
    for start, stop in pairwise(sorted({0, length, *starts, *stops})):
        # Places rise from id to id, so the ids of a character are neighbours.
        first, last = bisect_right(stops, start), bisect_left(starts, stop) - 1
        if first <= last:
            one = placed[first]
            tokens_here = one.index, placed[last].index
            yield Segment(start, stop, SegmentKind(one.kind.value), tokens_here, one.in_mask)
        else:
            cut = (cut_left and last < 0) or (cut_right and first == len(placed))
            yield Segment(start, stop, SegmentKind.CUT if cut else SegmentKind.DROPPED)

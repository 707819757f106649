"""Segments: every character once, in order, with exactly the ids that cover it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from promptmill.pipeline.explain import Segment, SegmentKind, TokenKind, TokenView
from promptmill.pipeline.explain.text import segments


@st.composite
def texts(draw: st.DrawFn) -> tuple[int, list[TokenView]]:
    """A length, and ids whose places rise and may overlap, leave gaps or be none."""
    length = draw(st.integers(0, 40))
    count = draw(st.integers(0, 15))
    points = st.integers(0, length)
    starts = sorted(draw(st.lists(points, min_size=count, max_size=count)))
    stops = sorted(draw(st.lists(points, min_size=count, max_size=count)))
    places = [(a, b) if a <= b else (0, 0) for a, b in zip(starts, stops, strict=True)]
    return length, [
        TokenView(n, n, "", place, TokenKind.TEXT, False) for n, place in enumerate(places)
    ]


@given(texts())
def test_every_character_once_with_the_ids_that_cover_it(
    text: tuple[int, list[TokenView]],
) -> None:
    length, tokens = text
    found = list(segments(length, tokens, cut_left=False, cut_right=False))
    assert [n for s in found for n in range(s.start, s.stop)] == list(range(length))
    for segment in found:
        covering = [
            t.index
            for t in tokens
            if t.offsets is not None and t.offsets[0] <= segment.start < t.offsets[1]
        ]
        assert segment.tokens == ((covering[0], covering[-1]) if covering else None)


def test_what_lies_outside_is_cut_and_between_is_dropped() -> None:
    places = [(0, 0), (3, 5), (6, 8)]
    tokens = [TokenView(n, n, "", p, TokenKind.TEXT, False) for n, p in enumerate(places)]

    def kinds(left: bool, right: bool) -> list[SegmentKind]:
        made: list[Segment] = [*segments(10, tokens, cut_left=left, cut_right=right)]
        return [segment.kind for segment in made]

    text, cut, dropped = SegmentKind.TEXT, SegmentKind.CUT, SegmentKind.DROPPED
    assert kinds(True, True) == [cut, text, dropped, text, cut]
    assert kinds(False, False) == [dropped, text, dropped, text, dropped]
    assert kinds(True, False) == [cut, text, dropped, text, dropped]

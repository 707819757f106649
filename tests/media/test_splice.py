"""Everything parallel to the ids moves with them."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from promptmill.pipeline.media.base import Join, Joins, Replacement
from promptmill.pipeline.media.match import Match
from promptmill.pipeline.media.splice import Expanded, append_id, collapse, join_all, splice
from promptmill.schemas.media import MediaSpan, Modality

NEWLINES = Joins((Join(1, 2, 3), Join(2, 1, 3), Join(2, 2, 4)), border=2)
"""Gemma 3's joins: one, two, three and four newlines."""
LENGTHS = {1: 1, 2: 2, 3: 3, 4: 4}


def ids(*values: int) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
    return np.array(values, np.int32)


def span(offset: int, length: int, index: int = 0) -> MediaSpan:
    return MediaSpan(Modality.IMAGE, offset, length, index, "hash")


def test_ids_of_a_span_point_at_the_placeholder() -> None:
    row = Expanded(ids(1, 2, 3, 4), np.array([[0, 1], [1, 3], [3, 7], [7, 9]], np.int32), None)
    made = splice(row, [(Match(0, 1, 3), Replacement(ids(9, 9, 9)))])
    assert made.ids.tolist() == [1, 9, 9, 9, 4]
    assert made.offsets is not None
    assert made.offsets.tolist() == [[0, 1], [1, 7], [1, 7], [1, 7], [7, 9]]


def test_an_insertion_points_before_its_next_id() -> None:
    row = Expanded(ids(1), np.array([[4, 5]], np.int32), np.ones(1, np.int8))
    made = splice(row, [(Match(0, 0, 0), Replacement(ids(9, 8)))])
    assert made.ids.tolist() == [9, 8, 1]
    assert made.offsets is not None
    assert made.offsets.tolist() == [[4, 4], [4, 4], [4, 5]]
    assert made.mask is not None
    assert made.mask.tolist() == [0, 0, 1]


def test_padding_stays_without_offsets() -> None:
    row = Expanded(ids(5, 1, 0, 0), np.array([[0, 1], [1, 2]], np.int32), np.ones(2, np.int8))
    made = splice(row, [(Match(0, 0, 1), Replacement(ids(9, 9)))])
    assert made.ids.tolist() == [9, 9, 1, 0, 0]
    assert made.offsets is not None
    assert made.offsets.tolist() == [[0, 1], [0, 1], [1, 2]]
    assert made.mask is not None
    assert made.mask.tolist() == [0, 0, 1]


def test_an_appended_id_stands_for_nothing() -> None:
    made = append_id(Expanded(ids(1), np.array([[0, 3]], np.int32), np.ones(1, np.int8)), 7)
    assert made.ids.tolist() == [1, 7]
    assert made.offsets is not None
    assert made.offsets.tolist() == [[0, 3], [3, 3]]
    assert made.mask is not None
    assert made.mask.tolist() == [1, 0]


def test_neighbouring_spans_share_the_joined_id() -> None:
    row = Expanded(ids(1, 2, 9, 2, 2, 9, 2, 1), spans=(span(1, 3, 0), span(4, 3, 1)))
    made = join_all(row, NEWLINES)
    assert made.ids.tolist() == [3, 9, 4, 9, 3]
    assert [(s.offset, s.length) for s in made.spans] == [(0, 3), (2, 3)]


@given(st.lists(st.sampled_from([1, 2, 3, 4, 9]), max_size=12))
def test_joins_keep_the_number_of_newlines(values: list[int]) -> None:
    row = Expanded(
        ids(*values), np.array([[n, n + 1] for n in range(len(values))], np.int32).reshape(-1, 2)
    )
    made = join_all(row, NEWLINES)
    count = sum(LENGTHS.get(v, 0) for v in values)
    assert sum(LENGTHS.get(v, 0) for v in made.ids.tolist()) == count
    assert made.offsets is not None
    assert len(made.offsets) == len(made.ids)
    assert made.offsets.ravel().tolist() == sorted(made.offsets.ravel().tolist())


@given(st.lists(st.sampled_from([1, 2]), min_size=2, max_size=9))
def test_joins_take_pairs_from_the_left(values: list[int]) -> None:
    left, right, merged = 2, 2, 4
    wanted, position = [], 0
    while position < len(values):
        pair = values[position : position + 2] == [left, right]
        wanted.append(merged if pair else values[position])
        position += 2 if pair else 1
    made = join_all(Expanded(ids(*values)), Joins((Join(left, right, merged),), border=2))
    assert made.ids.tolist() == wanted


def test_runs_of_embeddings() -> None:
    assert Replacement(ids(5, 5)).embed_runs() == ()
    assert Replacement(ids(5, 5), 5).embed_runs() == ()
    assert Replacement(ids(1, 5, 5, 1, 5), 5).embed_runs() == ((1, 2), (4, 1))
    assert Replacement(ids(1, 1), 5).embed_runs() == ((0, 0),)


def grown(values: list[int], target: int, content: list[int]) -> Expanded:
    """`values` with each target replaced, grown together with what is beside it."""
    places = [n for n, value in enumerate(values) if value == target]
    parts = [(Match(i, n, n + 1), Replacement(ids(*content))) for i, n in enumerate(places)]
    spans = [span(n + i * (len(content) - 1), len(content), i) for i, n in enumerate(places)]
    return join_all(replace(splice(Expanded(ids(*values)), parts), spans=tuple(spans)), NEWLINES)


@given(st.lists(st.sampled_from([1, 2, 7, 8]), max_size=12))
def test_collapsing_undoes_expanding(values: list[int]) -> None:
    values = join_all(Expanded(ids(*values)), NEWLINES).ids.tolist()
    made = grown(values, 7, [2, 9, 9, 2])
    back = collapse(made, [(7,)] * len(made.spans), NEWLINES)
    assert back.ids.tolist() == values
    assert [back.ids[s.offset] for s in back.spans] == [7] * len(made.spans)
    assert grown(back.ids.tolist(), 7, [2, 9, 9, 2]).ids.tolist() == made.ids.tolist()

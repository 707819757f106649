"""Placeholders are taken in the server's order."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from promptmill.pipeline.media.match import Match, match_ids, match_text

PROMPTS = st.lists(st.integers(0, 3), max_size=20)
TARGETS = st.lists(st.sampled_from([(1,), (2,), (1, 2), (1, 1, 2)]), max_size=5)


def slowly(ids: list[int], targets: list[tuple[int, ...]]) -> list[Match]:
    """Position by position, the first waiting item that fits."""
    waiting = dict(enumerate(targets))
    found, position = [], 0
    while position < len(ids):
        fits = (i for i, t in waiting.items() if tuple(ids[position : position + len(t)]) == t)
        item = next(fits, None)
        if item is None:
            position += 1
        else:
            stop = position + len(waiting.pop(item))
            found.append(Match(item, position, stop))
            position = stop
    return found


@given(PROMPTS, TARGETS)
def test_as_a_search_position_by_position(ids: list[int], targets: list[tuple[int, ...]]) -> None:
    assert match_ids(np.array(ids, np.int32), targets) == slowly(ids, targets)


@given(PROMPTS, TARGETS)
def test_text_is_searched_like_ids(ids: list[int], targets: list[tuple[int, ...]]) -> None:
    text = "".join(map(str, ids))
    texts = ["".join(map(str, target)) for target in targets]
    assert match_text(text, texts) == match_ids(np.array(ids, np.int32), targets)


def test_numbered_placeholders_are_taken_where_they_stand() -> None:
    found = match_text("b <2> a <1>", ["<1>", "<2>"])
    assert found == [Match(1, 2, 5), Match(0, 8, 11)]


def test_an_empty_target_is_the_start() -> None:
    assert match_ids(np.array([7, 8], np.int32), [()]) == [Match(0, 0, 0)]


def test_surplus_placeholders_stay() -> None:
    assert match_ids(np.array([5, 5, 5], np.int32), [(5,)]) == [Match(0, 0, 1)]

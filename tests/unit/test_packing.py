"""Best-fit decreasing: every row once, never too much, and not much waste."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from promptmill.pipeline.packing import best_fit_decreasing


@st.composite
def problems(draw: st.DrawFn, most_rows: int = 60) -> tuple[list[int], int]:
    size = draw(st.integers(1, 40))
    return draw(st.lists(st.integers(0, size), max_size=most_rows)), size


def packed(lengths: list[int], size: int) -> list[list[int]]:
    return best_fit_decreasing(np.array(lengths, np.int64), size)


@settings(deadline=None)
@given(problems())
def test_every_row_is_in_one_pack_and_no_pack_too_long(problem: tuple[list[int], int]) -> None:
    lengths, size = problem
    packs = packed(lengths, size)
    assert sorted(row for pack in packs for row in pack) == list(range(len(lengths)))
    assert all(sum(lengths[row] for row in pack) <= size for pack in packs)
    assert all(one < two for pack in packs for one, two in pairwise(pack))
    assert [pack[0] for pack in packs] == sorted(pack[0] for pack in packs)


@settings(deadline=None)
@given(problems())
def test_two_packs_never_fit_into_one(problem: tuple[list[int], int]) -> None:
    lengths, size = problem
    sums = sorted(sum(lengths[row] for row in pack) for pack in packed(lengths, size))
    assert len(sums) < 2 or sums[0] + sums[1] > size


@settings(deadline=None)
@given(problems(most_rows=7))
def test_packs_are_few_beside_the_fewest_possible(problem: tuple[list[int], int]) -> None:
    lengths, size = problem
    assert len(packed(lengths, size)) <= 11 / 9 * fewest(lengths, size) + 4
    assert len(packed(lengths, size)) <= 3 / 2 * fewest(lengths, size)


def fewest(lengths: list[int], size: int) -> int:
    """By trying everything."""

    def place(left: list[int], packs: list[int]) -> int:
        if not left:
            return len(packs)
        options = [
            place(left[1:], [*packs[:n], filled + left[0], *packs[n + 1 :]])
            for n, filled in enumerate(packs)
            if filled + left[0] <= size
        ]
        return min([*options, place(left[1:], [*packs, left[0]])])

    return place(lengths, [])


def test_the_fullest_that_fits_is_taken() -> None:
    assert packed([5, 4, 3, 6], 10) == [[0, 2], [1, 3]]

"""How an image is cut into tiles: the two searches that most families use."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def best_resolution(
    height: int, width: int, candidates: Iterable[tuple[int, int]]
) -> tuple[int, int]:
    """The (height, width) that loses least of an image scaled into it.

    Most effective pixels, then fewest wasted ones, then the first.
    """
    best = (0, 0)
    best_effective, least_wasted = 0, math.inf
    for high, wide in candidates:
        scale = min(wide / width, high / height)
        effective = min(int(width * scale) * int(height * scale), width * height)
        wasted = high * wide - effective
        if effective > best_effective or (effective == best_effective and wasted < least_wasted):
            best, best_effective, least_wasted = (high, wide), effective, wasted
    return best


def closest_ratio(
    height: int, width: int, candidates: Iterable[tuple[int, int]], tile: int
) -> tuple[int, int]:
    """The (columns, rows) whose ratio is nearest to an image's.

    Of equally near ones a later one is taken only if the image fills more than half of it.
    """
    ratio = width / height
    best = (1, 1)
    least = math.inf
    for columns, rows in candidates:
        distance = abs(ratio - columns / rows)
        if distance < least:
            best, least = (columns, rows), distance
        elif distance == least and width * height > 0.5 * tile * tile * columns * rows:
            best = (columns, rows)
    return best


def ratios_in_order(least: int, most: int) -> Sequence[tuple[int, int]]:
    """(columns, rows) of `least` to `most` tiles, by number of tiles, then by columns."""
    pairs = [(i, j) for i in range(1, most + 1) for j in range(1, most + 1)]
    return sorted((p for p in pairs if least <= p[0] * p[1] <= most), key=_area)


def ratios_of_set(least: int, most: int) -> Sequence[tuple[int, int]]:
    """The same pairs; those of equally many tiles as a Python set holds them.

    The remote code of several models sorts such a set by area alone, so that the order in which
    CPython keeps pairs of small integers decides between equally near ratios.
    """
    pairs = {
        (i, j)
        for n in range(least, most + 1)
        for i in range(1, n + 1)
        for j in range(1, n + 1)
        if least <= i * j <= most
    }
    return sorted(pairs, key=_area)


def _area(pair: tuple[int, int]) -> int:
    return pair[0] * pair[1]

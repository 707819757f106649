"""Lengths in buckets: exact below 16, then eight to every doubling; at most 250 in all."""

from __future__ import annotations

from typing import Final

STEPS: Final = 8
"""Buckets to a doubling."""


def bucket(length: int) -> int:
    """The bucket of a length in ids.

    >>> [bucket(n) for n in (0, 7, 15, 16, 17, 18)]
    [0, 7, 15, 16, 16, 17]
    """
    exponent = max(0, length.bit_length() - STEPS.bit_length())
    return (length >> exponent) + exponent * STEPS


def bounds(number: int) -> tuple[int, int]:
    """The lengths of a bucket: the first one, and the first one after it."""
    exponent = max(0, number // STEPS - 1)
    first = number - exponent * STEPS
    return first << exponent, (first + 1) << exponent

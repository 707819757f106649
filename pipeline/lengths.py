"""Lengths in buckets: exact below 16, then eight to every doubling; at most 250 in all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

STEPS: Final = 8
"""Buckets to a doubling."""


def bucket(length: int) -> int:
    """The bucket of a length in ids.

    >>> [bucket(n) for n in (0, 7, 15, 16, 17, 18)]
    [0, 7, 15, 16, 16, 17]
    """
    exponent = max(0, length.bit_length() - STEPS.bit_length())
    return (length >> exponent) + exponent * STEPS


def buckets(lengths: Sequence[int]) -> dict[int, int]:
    """How many of `lengths` are in each bucket."""
    values = np.asarray(lengths, np.int64)
    bits = np.frexp(values)[1]  # exact below 2**53
    exponents = np.maximum(0, bits - STEPS.bit_length())
    counts = np.bincount((values >> exponents) + exponents * STEPS)
    used = np.flatnonzero(counts)
    return dict(zip(used.tolist(), counts[used].tolist(), strict=True))


def bounds(number: int) -> tuple[int, int]:
    """The lengths of a bucket: the first one, and the first one after it."""
    exponent = max(0, number // STEPS - 1)
    first = number - exponent * STEPS
    return first << exponent, (first + 1) << exponent

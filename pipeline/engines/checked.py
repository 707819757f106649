"""A share of the rows, compared with the reference while the run goes on."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

import numpy as np

from promptmill.pipeline.engines.base import Engine, EngineMismatch, FlatTokens
from promptmill.pipeline.engines.reference import ReferenceEngine

CHECK_EVERY: Final = 1000
"""One row in so many is compared."""

CHECK_FIRST: Final = 16
"""So many of the first rows are compared, whatever they are."""

REMEMBERED: Final = 10_000
"""Checked rows that are remembered, so that a row that repeats costs one comparison."""


class CheckedEngine:
    """An engine that raises EngineMismatch when a compared row differs from the reference.

    After the first rows, a text decides alone whether it is compared: which ones are does not
    hang on batches, shards and workers.

    Args:
        engine: what does the work.
        reference: what it is compared with.
        every: one row in so many is compared.
        first: so many of the first rows are compared.
    """

    def __init__(
        self,
        engine: Engine,
        reference: ReferenceEngine,
        *,
        every: int = CHECK_EVERY,
        first: int = CHECK_FIRST,
    ) -> None:
        self._engine = engine
        self._reference = reference
        self._every = every
        self._first = first
        self._seen: set[int] = set()
        self.name = engine.name
        self.fallback_reason = engine.fallback_reason
        self.counts = engine.counts

    def encode(self, texts: Sequence[str], *, offsets: bool) -> FlatTokens:
        """As `Engine.encode`."""
        tokens = self._engine.encode(texts, offsets=offsets)
        rows = [row for row, text in enumerate(texts) if row < self._first or self._samples(text)]
        self._first = max(0, self._first - len(texts))
        if rows:
            wanted = self._reference.encode([texts[row] for row in rows], offsets=offsets)
            if any(not same_row(tokens, row, wanted, i) for i, row in enumerate(rows)):
                raise EngineMismatch(self.name)
            self.counts.rows_checked += len(rows)
        return tokens

    def _samples(self, text: str) -> bool:
        number = digest(text)
        if number % self._every or number in self._seen:
            return False
        if len(self._seen) >= REMEMBERED:
            self._seen.clear()
        self._seen.add(number)
        return True


def digest(text: str) -> int:
    """A number that a text alone decides, the same in every process."""
    return zlib.crc32(text[:: len(text) // 64 + 1].encode(errors="replace"))


def same_row(tokens: FlatTokens, row: int, others: FlatTokens, other: int) -> bool:
    """Whether a row of one batch equals a row of another, offsets included where both have them."""
    (ids, spans), (other_ids, other_spans) = tokens.row(row), others.row(other)
    same = np.array_equal(ids, other_ids)
    return same and (spans is None or other_spans is None or np.array_equal(spans, other_spans))

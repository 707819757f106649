"""A fast engine: native ids, offsets from tables, and the reference for what those cannot do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

import numpy as np

from promptmill.pipeline.engines.base import (
    EngineCounts,
    EngineMismatch,
    FlatTokens,
    concatenate,
    row_errors,
)
from promptmill.pipeline.engines.natives import Native
from promptmill.pipeline.engines.offsets import OffsetTables
from promptmill.pipeline.engines.pool import Pool
from promptmill.pipeline.engines.reference import ReferenceEngine
from promptmill.schemas.errors import RowError
from promptmill.schemas.options import EngineName
from promptmill.schemas.request import Offsets


class FastEngine:
    """Equal to the reference, many times faster, for tokenizers it was proven for.

    Args:
        name: of the native tokenizer.
        natives: its copies.
        tables: where offsets come from.
        reference: does the rows that the others cannot.
        doubtful: tells the texts that the native tokenizer might encode otherwise; None: it has
            none.
    """

    fallback_reason = None

    def __init__(
        self,
        name: EngineName,
        natives: Pool[Native],
        tables: OffsetTables,
        reference: ReferenceEngine,
        doubtful: Callable[[str], bool] | None = None,
    ) -> None:
        self.name = name
        self.counts = EngineCounts()
        self._natives = natives
        self._tables = tables
        self._reference = reference
        self._doubtful = doubtful

    def encode(self, texts: Sequence[str], *, offsets: bool) -> FlatTokens:
        """As `Engine.encode`."""
        if self._doubtful is None:
            return self._encode_sure(texts, offsets=offsets)
        runs = [(doubt, list(run)) for doubt, run in groupby(texts, self._doubtful)]
        if not any(doubt for doubt, _ in runs):
            return self._encode_sure(texts, offsets=offsets)
        ways = {False: self._encode_sure, True: self._encode_slowly}
        return concatenate([ways[doubt](run, offsets=offsets) for doubt, run in runs])

    def _encode_sure(self, texts: Sequence[str], *, offsets: bool) -> FlatTokens:
        try:
            with self._natives.borrow() as native, row_errors(texts):
                tokens = native.encode(texts)
                asked, hit = native.cache_use()
                self.counts.cache_asked += asked
                self.counts.cache_hit += hit
        except RowError:
            if len(texts) == 1:
                return self._encode_slowly(texts, offsets=offsets)
            return concatenate([self._encode_sure([text], offsets=offsets) for text in texts])
        if not offsets:
            return tokens
        spans, right = self._tables.spans(texts, tokens)
        if not right.all():
            self._correct(texts, tokens, spans, np.flatnonzero(~right).tolist())
        return FlatTokens(tokens.ids, tokens.splits, spans)

    def _encode_slowly(self, texts: Sequence[str], *, offsets: bool) -> FlatTokens:
        self.counts.rows_redone += len(texts)
        return self._reference.encode(texts, offsets=offsets)

    def _correct(
        self, texts: Sequence[str], tokens: FlatTokens, spans: Offsets, rows: list[int]
    ) -> None:
        """Write the reference's offsets over those of some rows."""
        self.counts.rows_redone += len(rows)
        redone = self._reference.encode([texts[row] for row in rows], offsets=True)
        for index, row in enumerate(rows):
            ids, right = redone.row(index)
            cut = slice(int(tokens.splits[row]), int(tokens.splits[row + 1]))
            if not np.array_equal(ids, tokens.ids[cut]):
                raise EngineMismatch(self.name)
            assert right is not None
            spans[cut] = right

"""The reference engine: the `tokenizers` library itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

import numpy as np
from tokenizers import Encoding, Tokenizer

from promptmill.pipeline.engines.base import EngineCounts, FlatTokens, row_errors
from promptmill.pipeline.engines.pool import Pool
from promptmill.schemas.options import EngineName
from promptmill.schemas.request import Offsets


class ReferenceEngine:
    """What every other engine is measured by.

    Args:
        pool: the tokenizers to use.
        fallback_reason: why no faster engine does the work, where one was asked for.
    """

    name: Final = EngineName.TOKENIZERS

    def __init__(self, pool: Pool[Tokenizer], fallback_reason: str | None = None) -> None:
        self._pool = pool
        self.fallback_reason = fallback_reason
        self.counts = EngineCounts()

    def encode(self, texts: Sequence[str], *, offsets: bool) -> FlatTokens:
        """As `Engine.encode`."""
        with self._pool.borrow() as tokenizer, row_errors(texts):
            encode = tokenizer.encode_batch if offsets else tokenizer.encode_batch_fast
            encodings = encode(list(texts), add_special_tokens=False)
        return flatten(encodings, offsets=offsets)


def flatten(encodings: Sequence[Encoding], *, offsets: bool) -> FlatTokens:
    """The library's per-row objects as flat arrays."""
    splits = np.zeros(len(encodings) + 1, np.int64)
    np.cumsum([len(encoding) for encoding in encodings], out=splits[1:])
    total = int(splits[-1])
    ids = chain.from_iterable(encoding.ids for encoding in encodings)
    return FlatTokens(
        np.fromiter(ids, np.int32, total),
        splits,
        _spans(encodings, total) if offsets else None,
    )


def _spans(encodings: Sequence[Encoding], total: int) -> Offsets:
    pairs = chain.from_iterable(encoding.offsets for encoding in encodings)
    return np.fromiter(chain.from_iterable(pairs), np.int32, 2 * total).reshape(total, 2)

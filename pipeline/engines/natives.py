"""The fast tokenizers, each behind one call: texts in, flat ids out. Both are optional."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

import numpy as np

from promptmill.pipeline.engines.base import FlatTokens
from promptmill.pipeline.engines.traits import Family, NotProven, Traits
from promptmill.pipeline.engines.unicode import has_unassigned, is_nfc
from promptmill.schemas.options import EngineName, SegmentCache

CACHE_BYTES: Final = 16 << 20
"""Of a segment cache: the texts and ids of many sessions."""
TRIAL_BYTES: Final = 8 << 20
"""Text after which AUTO decides whether the cache stays."""
LEAST_HITS: Final = 0.3
"""Share of the text that must repeat: below it, the cache costs more than it saves."""


class Native(Protocol):
    """One copy of a fast tokenizer, used by one thread at a time."""

    def encode(self, texts: Sequence[str]) -> FlatTokens:
        """Ids without offsets. Raises whatever the library raises."""

    def cache_use(self) -> CacheUse:
        """What a segment cache did since the last time this was asked."""


class CacheUse(NamedTuple):
    """Bytes of text that a segment cache was asked for, and those that it had."""

    asked: int = 0
    hit: int = 0


class Fastokens:
    """fastokens: byte-level BPE, with caches that stay small.

    Its segment cache keeps the ids of texts between added tokens. It halves the time on sessions
    and costs a tenth where nothing repeats, so AUTO gives it up when too little does.
    """

    def __init__(self, backend: str, segment_cache: SegmentCache = SegmentCache.OFF) -> None:
        from fastokens import Tokenizer

        self._tokenizer = Tokenizer.from_json_str(backend)
        self._on_trial = segment_cache is SegmentCache.AUTO
        self._told = CacheUse()
        if segment_cache is not SegmentCache.OFF:
            self._tokenizer.enable_segment_cache(CACHE_BYTES)

    def encode(self, texts: Sequence[str]) -> FlatTokens:
        """As `Native.encode`."""
        ids, splits = self._tokenizer.encode_batch_flat(list(texts))
        return FlatTokens(np.frombuffer(ids, np.int32), np.frombuffer(splits, np.int64))

    def cache_use(self) -> CacheUse:
        """As `Native.cache_use`."""
        stats = self._tokenizer.segment_cache_stats()
        if stats is None:
            return CacheUse()
        hit = stats["hit_bytes"]
        all_of_it, before = CacheUse(hit + stats["miss_bytes"], hit), self._told
        self._told = all_of_it
        if self._on_trial and all_of_it.asked >= TRIAL_BYTES:
            self._on_trial = False
            if hit < LEAST_HITS * all_of_it.asked:
                self._tokenizer.enable_segment_cache(0)
        return CacheUse(all_of_it.asked - before.asked, hit - before.hit)


class Gigatoken:
    """gigatoken: BPE with byte fallback; it has no segment cache."""

    def __init__(self, backend: str, segment_cache: SegmentCache = SegmentCache.OFF) -> None:
        from gigatoken import Tokenizer

        self._tokenizer = Tokenizer.from_json(backend)

    def encode(self, texts: Sequence[str]) -> FlatTokens:
        """As `Native.encode`."""
        # Its encode() of one text keeps a cache that grows without bound; this call does not.
        layout = self._tokenizer.encode_batch(list(texts), parallel=False).layout
        ids, splits = np.asarray(layout.content.data), np.asarray(layout.offsets.data)
        return FlatTokens(ids.view(np.int32), splits.astype(np.int64, copy=False))

    def cache_use(self) -> CacheUse:
        """As `Native.cache_use`."""
        return CacheUse()


NATIVES: Final = MappingProxyType[EngineName, Callable[[str, SegmentCache], Native]](
    {EngineName.FASTOKENS: Fastokens, EngineName.GIGATOKEN: Gigatoken}
)

FASTEST: Final = MappingProxyType(
    {Family.BYTE_LEVEL: EngineName.FASTOKENS, Family.BYTE_FALLBACK: EngineName.GIGATOKEN}
)
"""What measured best on unique text, per core and in memory."""


def load_native(
    name: EngineName, backend: str, segment_cache: SegmentCache = SegmentCache.OFF
) -> Native:
    """A copy of a fast tokenizer; `segment_cache` is for those that have one.

    Raises:
        NotProven: its package is missing, or it refuses this tokenizer.
    """
    try:
        return NATIVES[name](backend, segment_cache)
    except ImportError as error:
        raise NotProven(f"{name} is not installed (pip install 'promptmill[fast]')") from error
    except Exception as error:  # each library refuses in its own way
        raise NotProven(f"{name} cannot load it ({type(error).__name__}: {error})") from error


def doubts(name: EngineName, traits: Traits) -> Callable[[str], bool] | None:
    """Which texts a fast tokenizer might encode otherwise than the reference; None: none.

    gigatoken follows a newer Unicode than the reference: what this Python calls unassigned may be
    a letter to one of them only, and what NFC changes may come out in another order.
    """
    if name is not EngineName.GIGATOKEN or traits.family is not Family.BYTE_LEVEL:
        return None
    if traits.nfc:
        return lambda text: has_unassigned(text) or not is_nfc(text)
    return has_unassigned

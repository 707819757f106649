"""The fast tokenizers, each behind one call: texts in, flat ids out. Both are optional."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Final, Protocol

import numpy as np

from promptmill.pipeline.engines.base import FlatTokens
from promptmill.pipeline.engines.traits import Family, NotProven, Traits
from promptmill.pipeline.engines.unicode import has_unassigned, is_nfc
from promptmill.schemas.options import EngineName


class Native(Protocol):
    """One copy of a fast tokenizer, used by one thread at a time."""

    def encode(self, texts: Sequence[str]) -> FlatTokens:
        """Ids without offsets. Raises whatever the library raises."""


class Fastokens:
    """fastokens: byte-level BPE, with caches that stay small."""

    def __init__(self, backend: str) -> None:
        from fastokens import Tokenizer

        self._tokenizer = Tokenizer.from_json_str(backend)

    def encode(self, texts: Sequence[str]) -> FlatTokens:
        """As `Native.encode`."""
        ids, splits = self._tokenizer.encode_batch_flat(list(texts))
        return FlatTokens(np.frombuffer(ids, np.int32), np.frombuffer(splits, np.int64))


class Gigatoken:
    """gigatoken: BPE with byte fallback."""

    def __init__(self, backend: str) -> None:
        from gigatoken import Tokenizer

        self._tokenizer = Tokenizer.from_json(backend)

    def encode(self, texts: Sequence[str]) -> FlatTokens:
        """As `Native.encode`."""
        # Its encode() of one text keeps a cache that grows without bound; this call does not.
        layout = self._tokenizer.encode_batch(list(texts), parallel=False).layout
        ids, splits = np.asarray(layout.content.data), np.asarray(layout.offsets.data)
        return FlatTokens(ids.view(np.int32), splits.astype(np.int64, copy=False))


NATIVES: Final = MappingProxyType[EngineName, Callable[[str], Native]](
    {EngineName.FASTOKENS: Fastokens, EngineName.GIGATOKEN: Gigatoken}
)

FASTEST: Final = MappingProxyType(
    {Family.BYTE_LEVEL: EngineName.FASTOKENS, Family.BYTE_FALLBACK: EngineName.GIGATOKEN}
)
"""What measured best on unique text, per core and in memory."""


def load_native(name: EngineName, backend: str) -> Native:
    """A copy of a fast tokenizer.

    Raises:
        NotProven: its package is missing, or it refuses this tokenizer.
    """
    try:
        return NATIVES[name](backend)
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

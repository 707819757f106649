"""What runs parallel to a prompt's ids: the mask, and special tokens put around all of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from promptmill.pipeline.engines.base import RowTokens
from promptmill.schemas.request import CharSpan, Ids, Mask, Offsets


def clipped(ranges: Sequence[CharSpan], shift: int, length: int) -> list[CharSpan]:
    """Ranges that lie wholly in the kept part of the text, relative to it."""
    moved = ((start - shift, stop - shift) for start, stop in ranges)
    return [(start, stop) for start, stop in moved if start >= 0 and stop <= length]


def mask_of(tokens: RowTokens, spans: Sequence[CharSpan] | None, shift: int) -> Mask:
    """1 for every token that covers a character of an assistant span; shape (n,)."""
    mask = np.zeros(len(tokens.ids), np.int8)
    if tokens.offsets is None:  # an engine without places: the span is the whole text
        mask[:] = bool(spans)
        return mask
    starts, stops = tokens.offsets[:, 0], tokens.offsets[:, 1]
    for start, stop in spans or ():
        mask[(starts < stop - shift) & (stops > start - shift)] = 1
    return mask


def framed_ids(prefix: Ids, ids: Ids, suffix: Ids) -> Ids:
    """The ids with special tokens around."""
    if not len(prefix) and not len(suffix):
        return ids
    return np.concatenate([prefix, ids, suffix])


def framed_mask(mask: Mask, before: int, after: int, learned: int) -> Mask:
    """The mask with special tokens around, the last of which may be learned."""
    padded = np.pad(mask, (before, after))
    padded[len(padded) - learned :] = 1
    return padded


def framed_offsets(offsets: Offsets, before: int, after: int) -> Offsets:
    """The offsets with special tokens around, whose span is (0, 0), as in Hugging Face's
    tokenizers."""
    return np.pad(offsets, [(before, after), (0, 0)]) if before or after else offsets

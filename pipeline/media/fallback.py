"""Placeholders that are ordinary text and grew together with their neighbours in tokenizing.

Profile rule (vLLM 0.33.0, `multimodal/processing/processor.py`): the prompt is decoded, its
placeholders are replaced as text, the whole is encoded again and the contents are looked for in the
new ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

import numpy as np
import numpy.typing as npt

from promptmill.pipeline.media.base import Replacement, TextCodec
from promptmill.pipeline.media.match import Match
from promptmill.pipeline.media.splice import Expanded
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.media import Modality
from promptmill.schemas.request import Ids, Mask, Offsets


@dataclass(frozen=True, slots=True)
class Content:
    """An item, the text that stands for it and what it becomes."""

    modality: Modality
    target: str
    replacement: Replacement


@dataclass(frozen=True, slots=True)
class Shift:
    """How positions in one text become positions in another: linear between anchors."""

    source: npt.NDArray[np.intp]
    target: npt.NDArray[np.intp]

    def carry(self, positions: Offsets) -> Offsets:
        """The same array of positions, in the other text; never past the next anchor."""
        last = np.maximum(np.searchsorted(self.source, positions, side="right") - 1, 0)
        after = np.minimum(last + 1, len(self.source) - 1)
        moved = self.target[last] + positions - self.source[last]
        bounded: Offsets = np.minimum(moved, self.target[after]).astype(np.int32)
        return bounded


def expand_as_text(
    row: Expanded,
    text: str,
    matches: Sequence[Match],
    contents: Sequence[Content],
    codec: TextCodec,
) -> tuple[Expanded, list[Match]]:
    """`row` with its placeholders replaced as text.

    Args:
        row: the prompt.
        text: its ids, decoded.
        matches: the placeholders in `text`, one for each of `contents`.
        contents: the items.
        codec: the model's tokenizer.

    Returns:
        The row without spans, and where each content lies in it, from left to right.

    Raises:
        RowError: PLACEHOLDER_MISMATCH; a content grew together with the text around it.
    """
    inserts = [codec.decode(contents[match.item].replacement.ids) for match in matches]
    new_text, to_decoded = _replace(text, matches, inserts)
    ids, offsets = codec.encode(new_text)
    places = _find(ids, contents)
    if row.offsets is None:
        return Expanded(ids), places
    to_original = _to_original(row.ids, row.offsets, text, codec)
    offsets = to_original.carry(to_decoded.carry(offsets))
    mask = None if row.mask is None else _mask_at(offsets, row.offsets, row.mask)
    spots = {match.item: match for match in matches}
    for place in places:
        spot = spots[place.item]
        pair = np.array([spot.start, spot.stop], np.int32)
        offsets[place.start : place.stop] = to_original.carry(pair)
        if mask is not None:
            mask[place.start : place.stop] = 0
    return Expanded(ids, offsets, mask), places


def _replace(text: str, matches: Sequence[Match], inserts: Sequence[str]) -> tuple[str, Shift]:
    """The text with every match replaced, and the way back from it."""
    bounds = [0, *chain.from_iterable((m.start, m.stop) for m in matches), len(text)]
    kept = [text[a:b] for a, b in zip(bounds[::2], bounds[1::2], strict=True)]
    pieces = [kept[0], *chain.from_iterable(zip(inserts, kept[1:], strict=True))]
    new_bounds = [0, *accumulate(map(len, pieces))]
    return "".join(pieces), Shift(np.array(new_bounds), np.array(bounds))


def _find(ids: Ids, contents: Sequence[Content]) -> list[Match]:
    """Contents in ids, from left to right, those of one modality in their order."""
    waiting: dict[Modality, list[int]] = {}
    for item, content in enumerate(contents):
        waiting.setdefault(content.modality, []).append(item)
    places: list[Match] = []
    start = 0
    while found := list(_candidates(ids, contents, waiting, start)):
        place = min(found, key=lambda match: match.start)
        places.append(place)
        waiting[contents[place.item].modality].pop(0)
        start = place.stop
    if len(places) < len(contents):
        raise RowError(
            ErrorCode.PLACEHOLDER_MISMATCH,
            "What a media item becomes is no longer found once the prompt is tokenized: it grew "
            "together with the text beside its placeholder, often a space. Change that text.",
            parameter="messages",
        )
    return places


def _candidates(
    ids: Ids, contents: Sequence[Content], waiting: dict[Modality, list[int]], start: int
) -> Iterator[Match]:
    """For each modality where its next content lies, if it lies anywhere."""
    for queue in waiting.values():
        if queue:
            wanted = contents[queue[0]].replacement.ids
            for at in (np.flatnonzero(ids[start:] == wanted[0]) + start).tolist():
                if np.array_equal(ids[at : at + len(wanted)], wanted):
                    yield Match(queue[0], at, at + len(wanted))
                    break


def _to_original(ids: Ids, offsets: Offsets, text: str, codec: TextCodec) -> Shift:
    """From the decoded text to the text that `offsets` point into.

    The two differ where the tokenizer normalizes; token borders are known in both.
    """
    again, borders = codec.encode(text)
    length = len(offsets)
    if len(borders) >= length and np.array_equal(again, ids):
        borders, originals = borders[:length], offsets
    else:
        borders = np.array([[0, len(text)]], np.int32)
        originals = np.array([[offsets[0, 0], offsets[-1, 1]]], np.int32)
    ends = np.array([borders[-1, 1], originals[-1, 1]])
    return Shift(np.append(borders[:, 0], ends[0]), np.append(originals[:, 0], ends[1]))


def _mask_at(offsets: Offsets, old_offsets: Offsets, old_mask: Mask) -> Mask:
    """The old mask at the characters where the new ids begin."""
    at = np.searchsorted(old_offsets[: len(old_mask), 0], offsets[:, 0], side="right") - 1
    found: Mask = old_mask[np.maximum(at, 0)]
    return found

"""A stored prompt and a server's answer: equal, or where they begin to differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Final, TypeAlias

from promptmill.pipeline.write.readback import StoredSpan, collapse

Pair: TypeAlias = tuple[int, int]

MOST_ADDED: Final = 2
"""Special ids that a tokenizer puts on one side of a prompt, and keeps when it cuts by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A prompt as the run stored it."""

    ids: list[int]
    offsets: list[Pair] | None = None
    spans: tuple[StoredSpan, ...] = ()
    is_collapsed: bool = False
    """Whether media stand in the ids with one placeholder an item, as the run was asked to."""
    collapsed: list[int] | None = None
    """Otherwise, with media: the ids as they would then be."""
    truncated_left: int = 0
    truncated_right: int = 0
    appended_eos: int | None = None
    """The id that was appended to a document, for which no server is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server answered."""

    ids: list[int]
    offsets: list[Pair] | None = None
    spans: tuple[StoredSpan, ...] = ()
    whole: bool = False
    """Not cut, whatever was cut from the stored prompt."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Where an answer begins to differ."""

    index: int
    """Of the first id, or pair of offsets, that differs."""
    answer: Answer
    """As it was compared: cut and collapsed like the stored prompt."""
    only_offsets: bool = False


def compare(stored: Stored, answer: Answer) -> Mismatch | None:
    """None where both are the same prompt."""
    if answer.whole:
        answer = _cut_alike(answer, stored)
    if stored.is_collapsed and stored.spans and answer.spans:
        answer = _collapsed_alike(answer, stored)
    ids = stored.ids
    if stored.appended_eos is not None and [*answer.ids, stored.appended_eos] == ids:
        ids = answer.ids
    if ids != answer.ids:
        return Mismatch(first_difference(ids, answer.ids), answer)
    if stored.offsets is None or answer.offsets is None:
        return None
    ours = stored.offsets[: len(ids)]
    if ours != answer.offsets:
        return Mismatch(first_difference(ours, answer.offsets), answer, only_offsets=True)
    return None


def first_difference(one: Sequence[object], two: Sequence[object]) -> int:
    """Index of the first item that differs; the shorter length where one starts the other."""
    pairs = enumerate(zip_longest(one, two, fillvalue=None))
    return next((n for n, (a, b) in pairs if a != b), len(one))


def _cut_alike(answer: Answer, stored: Stored) -> Answer:
    """The whole prompt cut as the stored one was: special ids around it may have been kept."""
    left, right = stored.truncated_left, stored.truncated_right
    if not left and not right:
        return answer
    kept = [
        (head, tail)
        for head in range(MOST_ADDED + 1 if left else 1)
        for tail in range(MOST_ADDED + 1 if right else 1)
    ]
    cuts = [_without(answer.ids, left, right, head, tail) for head, tail in kept]
    chosen = next((n for n, ids in enumerate(cuts) if ids == stored.ids), 0)
    # /tokenize, which alone is not cut, gives no offsets; render endpoints say theirs otherwise.
    return replace(answer, ids=cuts[chosen], offsets=None)


def _without(ids: list[int], left: int, right: int, head: int, tail: int) -> list[int]:
    stop = len(ids) - right - tail
    return ids[:head] + ids[head + left : stop] + (ids[len(ids) - tail :] if tail else [])


def _collapsed_alike(answer: Answer, stored: Stored) -> Answer:
    """Media as the stored prompt has them, where a run asked for collapsed ones."""
    placeholders = {
        span["modality"]: stored.ids[span["offset"] : span["offset"] + span["length"]]
        for span in stored.spans
    }
    if any(span["modality"] not in placeholders for span in answer.spans):
        return answer
    return replace(answer, ids=collapse(answer.ids, answer.spans, placeholders))

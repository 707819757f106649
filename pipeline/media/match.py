"""Which placeholder belongs to which item: the server's search order.

Profile rule (vLLM 0.33.0, `multimodal/processing/processor.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from promptmill.schemas.request import Ids

Target = TypeVar("Target", str, tuple[int, ...])


@dataclass(frozen=True, slots=True)
class Match:
    """An item and the half-open range that its replacement takes the place of."""

    item: int
    start: int
    stop: int


def match_ids(ids: Ids, targets: Sequence[tuple[int, ...]]) -> list[Match]:
    """The matches of `targets`, one an item, in a prompt of ids; unmatched items are left out."""
    return _match(targets, lambda target: _id_starts(ids, target))


def match_text(text: str, targets: Sequence[str]) -> list[Match]:
    """The same in a text."""
    return _match(targets, lambda target: _text_starts(text, target))


def _match(targets: Sequence[Target], starts_of: Callable[[Target], deque[int]]) -> list[Match]:
    """From left to right, never overlapping; items of the same target take it in turn."""
    waiting: dict[Target, deque[int]] = {}
    for item, target in enumerate(targets):
        waiting.setdefault(target, deque()).append(item)
    starts = {target: starts_of(target) for target in waiting}
    matches: list[Match] = []
    end = 0
    while True:
        for target in [t for t in waiting if not _advance(starts[t], end)]:
            del waiting[target]
        if not waiting:
            return matches
        target = min(waiting, key=lambda t: (starts[t][0], waiting[t][0]))
        start, item = starts[target][0], waiting[target].popleft()
        end = start + len(target)
        matches.append(Match(item, start, end))
        if target:
            starts[target].popleft()
        if not waiting[target]:
            del waiting[target]


def _advance(starts: deque[int], end: int) -> bool:
    """Drop the occurrences that begin before `end`; whether any is left."""
    while starts and starts[0] < end:
        starts.popleft()
    return bool(starts)


def _id_starts(ids: Ids, target: tuple[int, ...]) -> deque[int]:
    if not target:
        return deque([0])
    found = np.flatnonzero(ids[: max(0, len(ids) - len(target) + 1)] == target[0])
    for offset, wanted in enumerate(target[1:], start=1):
        found = found[ids[found + offset] == wanted]
    return deque(found.tolist())


def _text_starts(text: str, target: str) -> deque[int]:
    if not target:
        return deque([0])
    starts: deque[int] = deque()
    start = text.find(target)
    while start >= 0:
        starts.append(start)
        start = text.find(target, start + 1)
    return starts

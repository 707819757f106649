"""How much of its prompts a serving engine's prefix cache could give: blocks that came before.

As vLLM counts it: a prompt is cut into blocks of 16 ids, a block is known by its own ids and all
before it (media and the cache salt counted in), and the last id is computed anew always. In a
cache without end every different block is computed once, so that

    blocks given = blocks of all prompts - different blocks,

whatever the order of the rows. Different ones are counted by the smallest of their hashes: a few
thousand of them say how many there are (K minimum values), and those of two shards say it of both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from promptmill.schemas.figures import Blocks
from promptmill.schemas.request import Ids, TokenRow

BLOCK: Final = 16
"""Ids of a block: vLLM's default."""
MOST_HASHES: Final = 4096
"""Kept for one shard; the count is then off by 1.6 % (one standard deviation)."""
LEAST_HASHES: Final = 128
HASHES_OF_A_RUN: Final = 16384
"""Kept in all receipts of a run together, as long as that leaves each of them enough."""

Hashes = npt.NDArray[np.uint64]
Marks: TypeAlias = Sequence[tuple[int, int]]
"""Block numbers of a prompt, and what else makes that block and all after it differ."""
_NO_MARKS: Final[Mapping[int, Marks]] = MappingProxyType({})
CACHE_SALT: Final = "cache_salt"
"""The request field that keeps prompts of different users apart in the cache."""
_WORDS: Final = BLOCK // 2
"""Pairs of ids in a block."""
_NONE: Final[Hashes] = np.empty(0, np.uint64)
_DTYPE: Final = "<u8"


def hashes_kept(shards: int) -> int:
    """How many hashes one of `shards` shards keeps."""
    return max(LEAST_HASHES, min(MOST_HASHES, HASHES_OF_A_RUN // max(1, shards)))


def marks_of(row: TokenRow) -> Marks:
    """What makes blocks of a row differ beside ids: media from where they begin, a cache salt."""
    marks = [(span.offset // BLOCK, _number(span.hash)) for span in row.spans]
    salt = row.request.passthrough.get(CACHE_SALT)
    return marks if salt is None else [*marks, (0, _number(json.dumps(salt)))]


class BlockCounter:
    """Counts the blocks of many prompts in bounded memory.

    Args:
        most: hashes to keep.
    """

    def __init__(self, most: int = MOST_HASHES) -> None:
        self._most = most
        self._rows = self._tokens = self._blocks = 0
        self._found = [_NONE]
        """Hashes below `_below`: those kept, and those found since."""
        self._unsorted = 0
        self._below: int | None = None

    @property
    def rows(self) -> int:
        """Prompts that were counted."""
        return self._rows

    def add(self, prompts: Sequence[Ids], marks: Mapping[int, Marks] = _NO_MARKS) -> None:
        """Count prompts; `marks` by their number among them."""
        self._rows += len(prompts)
        self._tokens += sum(map(len, prompts))
        found = block_hashes(prompts, marks)
        self._blocks += len(found)
        self._keep(found)

    def merge(self, blocks: Blocks) -> None:
        """Count what another counter has counted."""
        self._rows += blocks.rows
        self._tokens += blocks.tokens
        self._blocks += blocks.blocks
        if blocks.below is not None and (self._below is None or blocks.below < self._below):
            self._below = blocks.below
            self._found = [found[found < np.uint64(blocks.below)] for found in self._found]
        self._keep(np.frombuffer(blocks.hashes, _DTYPE).astype(np.uint64))

    def blocks(self) -> Blocks | None:
        """What was counted, for a receipt; None where there was no row."""
        if not self._rows:
            return None
        self._settle()
        return Blocks(
            rows=self._rows,
            tokens=self._tokens,
            blocks=self._blocks,
            hashes=self._found[0].astype(_DTYPE).tobytes(),
            below=self._below,
        )

    def reuse(self) -> Reuse:
        """What a cache could give of these prompts."""
        self._settle()
        known = len(self._found[0])
        different = float(known)
        if self._below is not None:
            different *= 2.0**64 / self._below
        error = 0.0 if self._below is None else different / max(1, known) ** 0.5
        return Reuse(self._tokens, self._blocks, min(different, float(self._blocks)), error)

    def _keep(self, found: Hashes) -> None:
        if self._below is not None:
            found = found[found < np.uint64(self._below)]
        self._found.append(found)
        self._unsorted += len(found)
        if self._unsorted > self._most:  # sorting is what costs
            self._settle()

    def _settle(self) -> None:
        found = np.concatenate(self._found)
        kept = _different(_smallest(found, 2 * self._most))
        if len(kept) <= self._most:  # all there is, or too many of these were the same
            kept = _different(found)
        if len(kept) > self._most:
            self._below = int(kept[self._most])
            kept = kept[: self._most]
        self._found, self._unsorted = [kept], 0


def _smallest(found: Hashes, count: int) -> Hashes:
    """All that are not larger than the `count`-th of them, or all."""
    if len(found) <= count:
        return found
    smallest: Hashes = found[found <= np.partition(found, count)[count]]
    return smallest


def _different(found: Hashes) -> Hashes:
    """In order, each once."""
    kept: Hashes = np.sort(found)
    kept = kept[np.diff(kept, prepend=kept[:1] + np.uint64(1)) != 0]
    return kept


@dataclass(frozen=True, slots=True)
class Reuse:
    """What a prefix cache without end could give."""

    tokens: int
    """Ids of the prompts."""
    blocks: int
    different: float
    """Different blocks; exact where `error` is 0."""
    error: float
    """One standard deviation of `different`."""

    @property
    def share(self) -> float:
        """Share of all ids that need not be computed again, 0 to 1."""
        return (self.blocks - self.different) * BLOCK / self.tokens if self.tokens else 0.0

    @property
    def share_error(self) -> float:
        """One standard deviation of `share`."""
        return self.error * BLOCK / self.tokens if self.tokens else 0.0


def block_hashes(prompts: Sequence[Ids], marks: Mapping[int, Marks] = _NO_MARKS) -> Hashes:
    """One hash for every block that a cache could give: of its ids and all before it.

    The ids of a block are taken two at a time, multiplied by a factor of their place and added up;
    that is mixed with the block's number in its prompt. Those of all blocks up to one's end are
    added up and mixed again.
    """
    counts = [max(0, len(ids) - 1) // BLOCK for ids in prompts]
    if not any(counts):
        return _NONE
    words = np.concatenate([ids[: n * BLOCK] for ids, n in zip(prompts, counts, strict=True)])
    own = np.einsum("ij,j->i", words.view(np.uint64).reshape(-1, _WORDS), _FACTORS)
    firsts = np.cumsum([0, *counts[:-1]])
    numbers = (np.arange(len(own)) - np.repeat(firsts, counts)).astype(np.uint64)
    own = _mixed(own + numbers)
    for number, of_prompt in marks.items():
        for block, mark in of_prompt:
            if block < counts[number]:
                place = int(firsts[number]) + block
                own[place : place + 1] += np.uint64(mark)
    chains = np.cumsum(own)
    before = np.where(firsts, chains[(firsts - 1).clip(0)], np.uint64(0))
    return _mixed(chains - np.repeat(before, counts) + numbers)


def _mixed(values: Hashes) -> Hashes:
    """The finalizer of splitmix64: every bit of the result hangs on every bit given."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: Hashes = mixed ^ (mixed >> np.uint64(31))
    return result


_FACTORS: Final = _mixed(np.arange(_WORDS, dtype=np.uint64)) | np.uint64(1)


def _number(text: str) -> int:
    """64 bits of a text, the same in every process."""
    return int.from_bytes(
        blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little"
    )

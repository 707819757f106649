"""What a shard tells the run report: counts in buckets, never rows. Part of its receipt.

Each of these adds up, and none of them grows with the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

MOST_EXAMPLES: Final = 3
"""Cut rows of one side that a shard names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutExample:
    """A row that was cut."""

    custom_id: str
    source: str
    row_index: int
    original_num_tokens: int
    num_tokens: int
    content: str | None = None
    """The text around the place of the cut; only with --report-content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cuts:
    """Rows that lost ids on one side."""

    rows: int = 0
    tokens: int = 0
    """Ids that were cut off."""
    most: int = 0
    """Ids that the row that lost most lost."""
    examples: tuple[CutExample, ...] = ()

    def __add__(self, other: Cuts) -> Cuts:
        return Cuts(
            rows=self.rows + other.rows,
            tokens=self.tokens + other.tokens,
            most=max(self.most, other.most),
            examples=(*self.examples, *other.examples)[:MOST_EXAMPLES],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Leading blocks of some prompts as a prefix cache keeps them, and which of them differ."""

    rows: int = 0
    tokens: int = 0
    """Ids of those rows."""
    blocks: int = 0
    """Blocks that a cache could give: all full ones, never the one with a prompt's last id."""
    hashes: bytes = b""
    """The smallest of the blocks' hashes, each once, ascending (little-endian uint64)."""
    below: int | None = None
    """Of all hashes below this, none is missing in `hashes`. None: none is missing at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a report shows of the rows of a shard."""

    before: dict[int, int] = field(default_factory=dict)
    """Token rows by length bucket before any cut (`pipeline/lengths.py`)."""
    after: dict[int, int] = field(default_factory=dict)
    """The same as stored."""
    refused: dict[int, int] = field(default_factory=dict)
    """Prompts refused for their number of ids, by that number's bucket."""
    longest: int = 0
    """Ids of the longest token row before any cut."""
    cuts: dict[str, Cuts] = field(default_factory=dict)
    """By the side that was cut: left, right or both."""
    media_tokens: dict[str, int] = field(default_factory=dict)
    """Stored ids that stand for media, by modality."""
    warnings: dict[str, int] = field(default_factory=dict)
    """Rows by the kind of their warnings: what stands before the colon."""
    whole_blocks: Blocks | None = None
    """Of rows that were not cut; None, here and below, where there was none."""
    cut_blocks: Blocks | None = None
    """Of rows that were cut, as they are stored."""
    other_blocks: Blocks | None = None
    """Of the same rows, had the other side been cut."""
    cuts_not_compared: int = 0
    """Rows that were cut where the ids that the other side would have kept are not known."""

"""Input files and the shards they are cut into. A shard is one lease, one part, one receipt."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class InputKind(StrEnum):
    """How an input file is laid out."""

    JSONL = "jsonl"
    PARQUET = "parquet"
    ARROW = "arrow"


class InputCompression(StrEnum):
    """How a JSONL file is compressed as a whole."""

    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file of the input."""

    url: str
    """What fsspec opens: an absolute path or a URL."""
    name: str
    """The `source` of its rows: relative to the input the user named."""
    kind: InputKind
    compression: InputCompression
    size: int
    """Bytes, as stored."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A slice of one input file."""

    index: int
    """0-based, in input order; the number in the part's name."""
    file: InputFile
    start: int
    """Byte (plain JSONL), row group (Parquet) or record batch (Arrow); 0 for compressed files."""
    stop: int
    """Exclusive, in the same unit."""
    first_row: int
    """`row_index` of the first row, blank lines counted."""
    rows: int
    """Lines or rows in it, blank lines counted."""
    skip: int = 0
    """Rows of the first row group or record batch that belong to the shard before."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole input, cut. Depends on the files and the options, never on the workers."""

    files: tuple[InputFile, ...]
    shards: tuple[Shard, ...]
    content: dict[str, str]
    """File name to sha256 of its stored bytes."""
    warnings: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Lines or rows in all."""
        return sum(shard.rows for shard in self.shards)

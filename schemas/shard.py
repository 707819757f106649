"""Input files and the shards they are cut into. A shard is one lease, one part, one receipt."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, overload


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


_NUMBERS: Final = 6
"""Of a shard: its file, then `start` to `skip`."""


@dataclass(frozen=True)
class Shards(Sequence[Shard]):
    """The shards of a plan. 48 bytes each: a `Shard` is made where one is asked for."""

    files: tuple[InputFile, ...] = ()
    numbers: array[int] = field(default_factory=lambda: array("q"))
    """`_NUMBERS` for each shard, one shard after the other."""

    def append(
        self, file: int, start: int, stop: int, first_row: int, rows: int, skip: int
    ) -> None:
        """One more shard, of the file with this index; the other numbers as in `Shard`."""
        self.numbers.extend((file, start, stop, first_row, rows, skip))

    @property
    def rows(self) -> int:
        """Lines or rows in all."""
        return sum(self.numbers[4::_NUMBERS])

    def __len__(self) -> int:
        return len(self.numbers) // _NUMBERS

    @overload
    def __getitem__(self, index: int) -> Shard: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Shard]: ...

    def __getitem__(self, index: int | slice) -> Shard | Sequence[Shard]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        file, *rest = self.numbers[number * _NUMBERS : (number + 1) * _NUMBERS]
        return Shard(number, self.files[file], *rest)


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole input, cut. Depends on the files and the options, never on the workers."""

    files: tuple[InputFile, ...]
    shards: Shards
    content: dict[str, str]
    """File name to sha256 of its stored bytes."""
    warnings: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Lines or rows in all."""
        return self.shards.rows

"""Pages of Parquet for the token columns: lists of numbers, or of pairs of numbers.

pyarrow works out nesting levels and bit widths number by number, which for pairs takes three times
as long as compressing them. Here all of a column is alike, so whole arrays will do.

    repetition levels    0 where a row begins, 1 for the next entry of it, 2 inside a pair
    definition levels    how much of a value is there: all of it but in null and empty lists
    values               DELTA_BINARY_PACKED or BYTE_STREAM_SPLIT
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from promptmill.pipeline.write.batches import TokenValues
from promptmill.pipeline.write.thrift import I32, STRUCT, Struct, Value, encode, varint, zigzag

RLE: Final = 3
"""The encoding of levels."""
ENCODINGS: Final[Mapping[str, int]] = MappingProxyType(
    {"DELTA_BINARY_PACKED": 5, "BYTE_STREAM_SPLIT": 9}
)
BLOCK: Final = 128
"""Differences that share a smallest one; each quarter of them has a width in bits."""
_QUARTERS: Final = 4
_QUARTER: Final = BLOCK // _QUARTERS
_LEAST: Final = -64
"""What is taken for the smallest difference: what is less, or 256 more, gets 32 bits a piece."""

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int32]
Buffer: TypeAlias = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Page:
    """A page with its header."""

    data: bytes
    values: int
    """Numbers in it, an empty or null list counted as one."""
    whole_bytes: int
    """Bytes before compression, and of the header."""


def page_of(found: TokenValues, *, nullable: bool, encoding: str, codec: pa.Codec | None) -> Page:
    """The page of some rows' values of a column.

    Args:
        found: at least one row.
        nullable: whether there may be null instead of a list.
        encoding: see `ENCODINGS`.
        codec: None: not compressed.
    """
    pairs = found.flat.ndim == 2
    leaves = found.sizes * 2 if pairs else found.sizes
    entries = np.maximum(leaves, 1)
    numbers = np.ascontiguousarray(found.flat, "<i4").reshape(-1)
    pieces: list[Buffer] = [
        *_sized(_repetition(leaves, entries, pairs=pairs)),
        *_sized(_definition(found, entries, most=nullable + 1 + pairs, nullable=nullable)),
        *_ENCODERS[encoding](numbers),
    ]
    content = b"".join(pieces)
    packed = content if codec is None else codec.compress(content, asbytes=True)
    count = int(entries.sum())
    header = _header(len(content), len(packed), count, ENCODINGS[encoding])
    return Page(header + packed, count, len(header) + len(content))


def _header(whole: int, packed: int, values: int, encoding: int) -> bytes:
    content: dict[int, tuple[int, Value]] = {
        1: (I32, values),
        2: (I32, encoding),
        3: (I32, RLE),
        4: (I32, RLE),
    }
    return encode(
        Struct({1: (I32, 0), 2: (I32, whole), 3: (I32, packed), 5: (STRUCT, Struct(content))})
    )


def _sized(levels: bytes) -> tuple[bytes, bytes]:
    return len(levels).to_bytes(4, "little"), levels


def _repetition(
    leaves: npt.NDArray[np.int64], entries: npt.NDArray[np.int64], *, pairs: bool
) -> bytes:
    """Levels in one literal run of one or two bits each, filled up to a multiple of 8."""
    starts = np.cumsum(entries) - entries
    total = int(starts[-1] + entries[-1])
    groups = -(-total // 8)
    levels = np.ones(groups * 8, np.uint8)
    if pairs and leaves.all():
        levels[1::2] = 2
    elif pairs:  # an empty row is one level, so that pairs begin anywhere
        in_row = np.arange(total) - np.repeat(starts, entries)
        levels[:total][in_row % 2 == 1] = 2
    levels[starts] = 0
    packed: Bytes
    if pairs:
        four = levels.view("<u4")
        packed = (four | four >> 6 | four >> 12 | four >> 18).astype(np.uint8)
    else:
        packed = np.packbits(levels, bitorder="little")
    return varint(groups << 1 | 1) + packed.tobytes()


def _definition(
    found: TokenValues, entries: npt.NDArray[np.int64], *, most: int, nullable: bool
) -> bytes:
    """Levels in runs of equal ones."""
    levels = np.where(found.sizes > 0, most, int(nullable))
    levels[found.absent] = 0
    firsts = np.flatnonzero(np.diff(levels, prepend=-1))
    counts = np.add.reduceat(entries, firsts)
    return b"".join(
        varint(count << 1) + bytes([level])
        for count, level in zip(counts.tolist(), levels[firsts].tolist(), strict=True)
    )


def _delta(numbers: Numbers) -> list[Buffer]:
    """DELTA_BINARY_PACKED, with 8 bits a difference, or 32 in blocks that need more.

    In offsets these are the blocks in which a row begins.
    """
    head = varint(BLOCK) + varint(_QUARTERS) + varint(len(numbers))
    if not len(numbers):
        return [head, zigzag(0)]
    deltas = numbers[1:] - numbers[:-1]
    deltas -= _LEAST
    count = len(deltas) // BLOCK
    blocks = deltas[: count * BLOCK].reshape(count, BLOCK)
    above = blocks.view(np.uint32)
    narrow = np.empty((count, 1 + _QUARTERS + BLOCK), np.uint8)
    narrow[:, : 1 + _QUARTERS] = np.frombuffer(_block_head(8, _QUARTERS), np.uint8)
    narrow[:, 1 + _QUARTERS :] = above
    pieces: list[Buffer] = [head, zigzag(int(numbers[0]))]
    done = 0
    for wide in np.flatnonzero(above.max(axis=1) > 255).tolist():
        pieces += [narrow[done:wide].data, _block_head(32, _QUARTERS), blocks[wide].data]
        done = wide + 1
    return [*pieces, narrow[done:].data, *_last_block(deltas[count * BLOCK :])]


def _last_block(deltas: Numbers) -> list[Buffer]:
    """A block that is not full: quarters that it does not need have no width and are left out."""
    if not len(deltas):
        return []
    quarters = -(-len(deltas) // _QUARTER)
    filled = np.zeros(quarters * _QUARTER, "<i4")
    filled[: len(deltas)] = deltas
    return [_block_head(32, quarters), filled.data]


def _block_head(width: int, quarters: int) -> bytes:
    return zigzag(_LEAST) + bytes([width] * quarters + [0] * (_QUARTERS - quarters))


def _byte_stream_split(numbers: Numbers) -> list[Buffer]:
    """BYTE_STREAM_SPLIT: the lowest byte of each number, then the next one of each, and so on."""
    return [np.ascontiguousarray(numbers.view(np.uint8).reshape(-1, 4).T).data]


_ENCODERS: Final[Mapping[str, Callable[[Numbers], list[Buffer]]]] = MappingProxyType(
    {"DELTA_BINARY_PACKED": _delta, "BYTE_STREAM_SPLIT": _byte_stream_split}
)

"""Lines out of blocks of bytes: ended by a newline byte and by nothing else.

U+2028, a lone carriage return and the like are content. A carriage return before the newline stays
in the line: JSON takes it for white space.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.reject import HEAD_BYTES
from promptmill.schemas.request import RawRow

BLOCK_BYTES: Final = 1 << 20
"""How much is read at once."""

MAX_LINE_BYTES: Final = 64 << 20
"""The longest line that is carried; a longer one is never held in memory, only its head."""

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class BrokenStreamError(Exception):
    """A compressed stream that cannot be followed further; says why."""


class _OpenLine:
    """A line whose end has not been seen yet."""

    def __init__(self, start: int, piece: bytes = b"") -> None:
        self.start = start
        self.size = 0
        self._pieces: list[bytes] = []
        self._head = b""
        self.add(piece)

    def add(self, piece: bytes) -> None:
        """Append the next bytes; over the limit only the head is kept."""
        self.size += len(piece)
        if self.size <= MAX_LINE_BYTES:
            self._pieces.append(piece)
        elif self._pieces or not self._head:
            self._head = b"".join((*self._pieces, piece))[:HEAD_BYTES]
            self._pieces.clear()

    def row(self, source: str, index: int) -> RawRow:
        """The line as a row, now that it ended."""
        if self.size > MAX_LINE_BYTES:
            error = RowError(
                ErrorCode.LINE_TOO_LONG,
                f"line {index + 1} of {source} has {self.size} bytes; the limit is "
                f"{MAX_LINE_BYTES}. Split the row, or name media by path or URL instead of "
                "carrying them in it.",
                value=self.size,
                stage=Stage.READ,
            )
            return self.broken_row(source, index, error)
        data, start = b"".join(self._pieces), self.start
        if start == 0 and data.startswith(BYTE_ORDER_MARK):
            start = len(BYTE_ORDER_MARK)
            data = data[start:]
        return RawRow(source, index, data, byte_range=(start, self.start + self.size))

    def broken_row(self, source: str, index: int, error: RowError) -> RawRow:
        """The line as a row that cannot be carried."""
        head = self._head or b"".join(self._pieces)[:HEAD_BYTES]
        place = (self.start, self.start + self.size)
        return RawRow(source, index, None, error=error, byte_range=place, head=head)


def line_rows(blocks: Iterable[bytes], source: str, first_row: int, start: int) -> Iterator[RawRow]:
    """One row per line, blank ones included (as b""), the last one with or without a newline.

    Args:
        blocks: the bytes, cut anywhere; held one at a time.
        source: the rows' `source`.
        first_row: `row_index` of the first line.
        start: where the first byte lies in the (uncompressed) file. A byte order mark at 0 is
            left out of its line.

    Yields:
        Rows with the exact `byte_range` of `data`. A line over `MAX_LINE_BYTES` comes as an error
        with its head. Where `blocks` raises BrokenStreamError, one error row ends the stream: its
        range and head are those of the line that was not finished.
    """
    line = _OpenLine(start)
    index = first_row
    try:
        for block in blocks:
            first, *others = block.split(b"\n")
            line.add(first)
            if not others:
                continue
            yield line.row(source, index)
            at = line.start + line.size + 1
            for piece in others[:-1]:
                index += 1
                if len(piece) > MAX_LINE_BYTES:
                    yield _OpenLine(at, piece).row(source, index)
                else:  # nearly all lines: nothing to put together, and no mark before them
                    yield RawRow(source, index, piece, byte_range=(at, at + len(piece)))
                at += len(piece) + 1
            line = _OpenLine(at, others[-1])
            index += 1
    except BrokenStreamError as broken:
        message = (
            f"{source} is broken after line {index}: {broken}. The lines before were read; what "
            "follows cannot be. Get the file again, or compress it again from its source."
        )
        error = RowError(ErrorCode.UNREADABLE_INPUT, message, stage=Stage.READ)
        yield line.broken_row(source, index, error)
        return
    if line.size:
        yield line.row(source, index)

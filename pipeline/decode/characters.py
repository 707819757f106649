"""Characters that several ids share: text is given out only where it is whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

REPLACEMENT: Final = "\ufffd"
_LONGEST: Final = 4
"""Bytes of a character."""


class TextStream:
    """Decodes ids one by one.

    What was given out is never taken back, and together with `finish` it is what decoding all ids
    at once gives.

    Args:
        decode: ids to text.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._ids: list[int] = []
        # Decoded with the ids given out last before them, so that spaces come out right.
        self._context = self._read = 0

    def push(self, token_id: int) -> str:
        """The text that is whole now and was not before."""
        self._ids.append(token_id)
        text = self.finish()
        if not text or text.endswith(REPLACEMENT):
            return ""
        self._context, self._read = self._read, len(self._ids)
        return text

    def finish(self) -> str:
        """What is left: text that ends in replacement characters."""
        before = self._decode(self._ids[self._context : self._read])
        return self._decode(self._ids[self._context :])[len(before) :]


def pending_bytes(data: bytes) -> int:
    """How many bytes at the end begin a UTF-8 character without ending it."""
    for back in range(1, min(_LONGEST, len(data) + 1)):
        byte = data[-back]
        if byte < 0x80:
            return 0
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if back < length else 0
    return 0


def whole_text(
    decode: Callable[[Sequence[int]], str], ids: Sequence[int], pieces: Sequence[bytes]
) -> tuple[str, bool]:
    """The text of all ids without an unfinished character at its end.

    Args:
        decode: ids to text.
        ids: known ones.
        pieces: the bytes of each.

    Returns:
        The text, and whether something was dropped.
    """
    pending = pending_bytes(b"".join(pieces[-_LONGEST:]))
    if not pending:
        return decode(ids), False
    kept, left = len(ids), pending
    while left > 0:
        kept -= 1
        left -= len(pieces[kept])
    if not left:
        return decode(ids[:kept]), True
    return decode(ids).removesuffix(REPLACEMENT), True  # the id holds other characters, too

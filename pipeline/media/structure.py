"""Whether a media file is all there, told from its structure without decoding anything.

A download that broke off has a good header. What ends it is a mark (JPEG, PNG, GIF), a length
in front (RIFF, boxes) or the extent of its pixel data (raw formats).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from promptmill.pipeline.media.base import unreadable
from promptmill.schemas.media import Modality

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_RIFF_UNKNOWN = 0xFFFFFFFF
"""The length in a RIFF that was written to a pipe."""
_JPEG_STANDALONE = frozenset([0x01, *range(0xD0, 0xD9)])


def check_whole(data: bytes, modality: Modality) -> None:
    """Refuse a file that broke off; raises RowError MEDIA_UNREADABLE."""
    missing = cut_short(data)
    if missing is not None:
        raise unreadable(modality, f"the file is cut short ({missing})")


def cut_short(data: bytes) -> str | None:
    """What is missing at the end of a file; None if nothing is, or if its kind is not known."""
    if data.startswith(b"\xff\xd8"):
        return None if _jpeg_ends(data) else "no JPEG end of image"
    if data.startswith(PNG_SIGNATURE):
        kinds = [kind for kind, _, _ in png_chunks(data)]
        return None if kinds[-1:] == [b"IEND"] else "no PNG IEND chunk"
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return None if _gif_ends(data) else "no GIF trailer"
    if data[:4] == b"RIFF" and len(data) >= 8:
        (length,) = struct.unpack_from("<I", data, 4)
        known = length != _RIFF_UNKNOWN
        return "shorter than its RIFF length" if known and length + 8 > len(data) else None
    if data[4:8] in (b"ftyp", b"jP  "):
        return None if _boxes_fit(data) else "shorter than its boxes"
    return None


def png_chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """(kind, start, length) of the content of every whole chunk up to IEND."""
    position = len(PNG_SIGNATURE)
    while position + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, position)
        if position + 12 + length > len(data):
            return
        yield kind, position + 8, length
        if kind == b"IEND":
            return
        position += 12 + length


def _jpeg_ends(data: bytes) -> bool:
    """Whether an end-of-image mark follows the first scan (thumbnails before it have their own)."""
    position = 2
    while (position := data.find(b"\xff", position)) >= 0 and position + 4 <= len(data):
        mark = data[position + 1]
        if mark == 0xDA:
            return data.find(b"\xff\xd9", position) >= 0
        if mark == 0xFF:
            position += 1
        elif mark == 0x00 or mark in _JPEG_STANDALONE:
            position += 2
        else:
            position += 2 + struct.unpack_from(">H", data, position + 2)[0]
    return False


def _gif_ends(data: bytes) -> bool:
    """Whether the blocks lead to the trailer."""
    if len(data) < 13:
        return False
    position = 13 + _colour_table(data[10])
    while position < len(data):
        kind = data[position]
        if kind == 0x3B:
            return True
        if kind == 0x2C:
            if position + 10 > len(data):
                return False
            position = _sub_blocks(data, position + 11 + _colour_table(data[position + 9]))
        elif kind == 0x21:
            position = _sub_blocks(data, position + 2)
        else:
            position += 1
    return False


def _colour_table(flags: int) -> int:
    """Bytes of the colour table that a GIF descriptor announces."""
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _sub_blocks(data: bytes, position: int) -> int:
    """Where the data sub-blocks that start here end."""
    while position < len(data) and data[position]:
        position += 1 + data[position]
    return position + 1


def boxes(data: bytes, start: int, stop: int) -> Iterator[tuple[bytes, int, int]]:
    """(kind, start, stop) of the content of every box in a range; `stop` may be beyond it.

    A box that runs to the end of the file, and one that makes no sense, is the last.
    """
    while start + 8 <= stop:
        length, kind = struct.unpack_from(">I4s", data, start)
        head = 8
        if length == 1 and start + 16 <= stop:
            (length,) = struct.unpack_from(">Q", data, start + 8)
            head = 16
        end = stop if length == 0 else start + length
        yield kind, start + head, end
        if length < head:
            return
        start = end


def _boxes_fit(data: bytes) -> bool:
    """Whether every top-level box lies in the file."""
    return all(start <= stop <= len(data) for _, start, stop in boxes(data, 0, len(data)))

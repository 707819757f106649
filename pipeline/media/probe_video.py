"""Videos from their headers: size as shown, frames, rate."""

from __future__ import annotations

import io
import struct

from promptmill.pipeline.media.base import VideoInfo, unreadable
from promptmill.pipeline.media.extra import need_av
from promptmill.pipeline.media.structure import boxes, check_whole
from promptmill.schemas import profile
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.media import Modality

NOT_A_VIDEO = "its content is no video the server opens"


def probe_video(data: bytes, *, decode: bool = False) -> VideoInfo:
    """Size, frame count and frame rate of a video. Packets are counted, none is decoded.

    Args:
        data: the file.
        decode: decode every frame as well (`--check-media`).

    Raises:
        RowError: MEDIA_UNREADABLE; MEDIA_LIMIT for frames larger than the server decodes.
    """
    check_whole(data, Modality.VIDEO)
    av = need_av()
    try:
        with av.open(io.BytesIO(data)) as container:
            if not container.streams.video:
                raise unreadable(Modality.VIDEO, "there is no video stream in it")
            stream = container.streams.video[0]
            width, height = stream.width, stream.height
            if width * height > profile.MEDIA_MAX_PIXELS:
                raise _too_large(width, height)
            packets = [p for p in container.demux(stream) if p.size and not p.is_discard]
            frames = len(packets)
            if decode:
                for packet in packets:
                    packet.decode()
            fps = float(stream.guessed_rate or stream.average_rate or 0)
    except av.error.FFmpegError:
        raise unreadable(Modality.VIDEO, NOT_A_VIDEO) from None
    if not frames or not width or not height:
        raise unreadable(Modality.VIDEO, NOT_A_VIDEO)
    if _is_turned(data):
        width, height = height, width
    return VideoInfo(width, height, frames, fps)


def _is_turned(data: bytes) -> bool:
    """Whether an MP4 or MOV asks to be shown turned by a quarter."""
    for start, stop in _inside(data, [(0, len(data))], b"moov", b"trak", b"tkhd"):
        matrix, size = (52, 88) if data[start : start + 1] == b"\x01" else (40, 76)
        if start + size + 8 <= stop:
            a, b = struct.unpack_from(">ii", data, start + matrix)
            if struct.unpack_from(">II", data, start + size) != (0, 0):
                return bool(abs(b) > abs(a))
    return False


def _inside(data: bytes, ranges: list[tuple[int, int]], *kinds: bytes) -> list[tuple[int, int]]:
    """The ranges of all boxes on a path of kinds."""
    for wanted in kinds:
        ranges = [
            (start, stop)
            for outer in ranges
            for kind, start, stop in boxes(data, *outer)
            if kind == wanted and stop <= len(data)
        ]
    return ranges


def _too_large(width: int, height: int) -> RowError:
    return RowError(
        ErrorCode.MEDIA_LIMIT,
        f"Frames of {width}x{height}: more than the {profile.MEDIA_MAX_PIXELS} pixels that the "
        "server decodes. Scale the video down.",
        parameter=Modality.VIDEO.value,
        stage=Stage.EXPAND,
    )

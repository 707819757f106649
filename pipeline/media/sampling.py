"""Which frames of a video are used. Profile rule (vLLM 0.33.0, `multimodal/video.py`).

The server's loader takes some; where it took all of them, the model's video processor samples
once more by its own rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from promptmill.pipeline.media.base import Site, VideoInfo, refused
from promptmill.pipeline.media.values import Values, loader_values, row_values
from promptmill.schemas import profile
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.media import Modality

Sampler: TypeAlias = Callable[[VideoInfo, Values], Sequence[int]]
"""A video and the arguments for it to frame indices, rising."""

DEFAULT_NUM_FRAMES = 32
DEFAULT_FPS = 24.0
"""Assumed where a file does not tell its rate."""


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of a video that reach the model."""

    indices: tuple[int, ...]
    """In the video, rising; an index may repeat."""
    fps: float
    """Of the video."""

    def __len__(self) -> int:
        return len(self.indices)

    def seconds(self) -> list[float]:
        """When each frame is shown."""
        fps = self.fps or DEFAULT_FPS
        return [index / fps for index in self.indices]


def sample(
    info: VideoInfo,
    site: Site,
    loader: Sampler,
    processor: Sampler | None,
    *,
    obeys: bool = True,
) -> Frames:
    """The frames that loader and processor leave.

    Args:
        info: the video.
        site: for the row's arguments.
        loader: the server's, which goes with the processor class; `video_backend` of the row's
            media_io_kwargs replaces it.
        processor: the processor's own sampling; None: it has none.
        obeys: the row's `do_sample_frames` decides whether the processor samples.

    Raises:
        RowError: no frame is left, they are too many pixels, or sampling twice would leave the
            video.
    """
    io = loader_values(site.kwargs, Modality.VIDEO)
    asked = row_values(site.kwargs, Modality.VIDEO)
    taken = LOADERS.get(io.text("video_backend", ""), loader)(info, io)
    if not taken:
        raise refused(Modality.VIDEO, f"no frame is sampled of {info.frames} at {info.fps:g} fps")
    _check_decoded(info, len(taken))
    again = len(taken) == info.frames
    if obeys:
        again = asked.flag("do_sample_frames", again)
    if not again or processor is None:
        return Frames(tuple(taken), info.fps)
    kept = processor(info, asked)
    if not kept or max(kept) >= len(taken):
        raise refused(
            Modality.VIDEO,
            f"do_sample_frames samples the {len(taken)} frames taken of {info.frames} once more, "
            "beyond their end",
        )
    return Frames(tuple(kept), info.fps)


def _check_decoded(info: VideoInfo, frames: int) -> None:
    """Hold the bytes that the server decodes for one request: three a pixel."""
    decoded = 3 * info.width * info.height * frames
    if decoded > profile.MEDIA_DECODE_BYTES:
        raise RowError(
            ErrorCode.MEDIA_LIMIT,
            f"{frames} frames of {info.width}x{info.height} are {decoded} bytes once decoded; the "
            f"server decodes at most {profile.MEDIA_DECODE_BYTES} for one request. Use fewer or "
            "smaller frames.",
            parameter=Modality.VIDEO.value,
        )


def evenly(info: VideoInfo, io: Values) -> Sequence[int]:
    """The loader "opencv": at most `num_frames` (32), at most `fps`, evenly spaced."""
    count = info.frames
    wanted = io.get("num_frames")
    cap = wanted if isinstance(wanted, int) else DEFAULT_NUM_FRAMES
    if cap > 0:
        count = min(cap, count)
    fps = _fps(io, 0.0)
    if fps > 0 and info.fps > 0:
        count = min(count, math.floor(info.frames / info.fps * fps))
    count = max(1, count)
    if count == info.frames:
        return range(count)
    return [int(i) for i in np.linspace(0, info.frames - 1, count, dtype=int)]


def qwen3_vl(info: VideoInfo, io: Values) -> Sequence[int]:
    """The loader "qwen3_vl": 2 frames a second, 4 to 768 of them."""
    fps = min(_fps(io, 2.0), 30.0)
    count = int(info.frames / (info.fps or DEFAULT_FPS) * fps)
    count = min(max(count, io.integer("min_frames", 4)), io.integer("max_frames", 768), info.frames)
    return spread(info.frames, count)


def qwen2_vl(info: VideoInfo, io: Values) -> Sequence[int]:
    """The loader "qwen2_vl": an even number of frames, 2 a second, 4 to 768 of them."""
    if info.fps <= 0:
        raise refused(Modality.VIDEO, "its frame rate is unknown")
    most = math.floor(min(io.integer("max_frames", 768), info.frames) / 2) * 2
    count = info.frames / info.fps * min(_fps(io, 2.0), 30.0)
    return steps(info.frames, min(max(count, io.integer("min_frames", 4)), most, info.frames))


def opencv_dynamic(info: VideoInfo, io: Values) -> Sequence[int]:
    """The loader "opencv_dynamic": 2 frames a second; of long videos, 2 for each of 300 seconds."""
    return per_second(info, _fps(io, 2.0), io.number("max_duration", 300.0), least=0)


LOADERS: dict[str, Sampler] = {
    "opencv": evenly,
    "qwen3_vl": qwen3_vl,
    "qwen2_vl": qwen2_vl,
    "opencv_dynamic": opencv_dynamic,
}
"""By the server's names."""


def resample_evenly(info: VideoInfo, asked: Values) -> Sequence[int]:
    """The processors' plain sampling: all frames unless `fps` or `num_frames` is asked for."""
    count = info.frames
    if asked.get("num_frames") is not None:
        count = asked.integer("num_frames")
    elif asked.get("fps") is not None:
        if info.fps <= 0:
            asked.fail("fps", "left out where the frame rate is unknown")
        count = int(info.frames / info.fps * asked.number("fps"))
    if count > info.frames:
        asked.fail("num_frames", f"at most the video's {info.frames}")
    return [i * info.frames // count for i in range(count)]


def spread(total: int, count: int) -> list[int]:
    """`count` of `total` frames, both ends included, rounded half to even."""
    return [int(i) for i in np.linspace(0, total - 1, count).round()]


def steps(total: int, count: float) -> list[int]:
    """An even number of `total` frames, at most `count`, at equal steps from the first on.

    The steps are float32, and there may be one more of them than was asked for.
    """
    even = math.floor(count / 2) * 2
    if even <= 0:
        raise refused(Modality.VIDEO, f"it has {total} frames, and 2 are the least")
    step = total / even
    found = np.arange(math.ceil(total / step), dtype=np.float32) * np.float32(step)
    return [min(int(i), total - 1) for i in found]


def per_second(info: VideoInfo, fps: float, max_seconds: float, *, least: int) -> list[int]:
    """GLM's rule: `fps` frames a second, each once; `least` is how many a short video gives."""
    last = info.frames - 1
    if info.fps <= 0:
        raise refused(Modality.VIDEO, "its frame rate is unknown")
    duration = info.frames / info.fps
    if duration <= max_seconds:
        count = max(math.floor(duration * fps), least)
        found = [min(last, math.ceil(i * info.fps / fps)) for i in range(count)]
    elif int(max_seconds * fps) >= info.frames:
        found = list(range(info.frames))
    else:
        times = np.linspace(0, duration, int(max_seconds * fps), endpoint=True)
        found = [min(last, math.ceil(t * info.fps)) for t in times.tolist()]
    return sorted(set(found))


def _fps(values: Values, default: float) -> float:
    """`fps` where it is a positive number; the loader ignores others."""
    value = values.get("fps")
    return float(value) if isinstance(value, int | float) and value > 0 else default

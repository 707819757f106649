"""Resizing to whole patches with a bounded area: the rule that Qwen's models brought.

`round` is Python's: half to even, of a float64 quotient.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from promptmill.pipeline.media.base import refused
from promptmill.schemas.media import Modality

MAX_RATIO: Final = 200
"""Longer to shorter side; exactly this much passes."""


@dataclass(frozen=True, slots=True)
class AreaBounds:
    """How large a resized picture, or a stack of frames, may be. Pixels."""

    smallest: int
    largest: int


def smart_resize(height: int, width: int, *, factor: int, bounds: AreaBounds) -> tuple[int, int]:
    """Height and width of a resized image, multiples of `factor`.

    The bounds are compared with the rounded size, the scale comes from the given one.

    Raises:
        RowError: MEDIA_UNSUPPORTED; the image is too long and thin.
    """
    _check_ratio(height, width, Modality.IMAGE)
    high, wide = round(height / factor) * factor, round(width / factor) * factor
    if high * wide > bounds.largest:
        beta = math.sqrt((height * width) / bounds.largest)
        return _down(height, beta, factor), _down(width, beta, factor)
    if high * wide < bounds.smallest:
        beta = math.sqrt(bounds.smallest / (height * width))
        return _up(height, beta, factor), _up(width, beta, factor)
    return high, wide


def smart_resize_frames(
    frames: int,
    height: int,
    width: int,
    *,
    factor: int,
    temporal_factor: int,
    bounds: AreaBounds,
    modality: Modality,
) -> tuple[int, int]:
    """The same for a stack of frames, whose whole volume is bounded.

    Sides under one factor are scaled up first.

    Raises:
        RowError: MEDIA_UNSUPPORTED; too thin, or fewer frames than one temporal patch.
    """
    if frames < temporal_factor:
        raise refused(modality, f"it has {frames} frames, and {temporal_factor} are the least")
    if height < factor or width < factor:
        scale = max(factor / height, factor / width)
        height, width = int(height * scale), int(width * scale)
    _check_ratio(height, width, modality)
    high, wide = round(height / factor) * factor, round(width / factor) * factor
    volume = round(frames / temporal_factor) * temporal_factor * high * wide
    if volume > bounds.largest:
        beta = math.sqrt((frames * height * width) / bounds.largest)
        return _down(height, beta, factor), _down(width, beta, factor)
    if volume < bounds.smallest:
        beta = math.sqrt(bounds.smallest / (frames * height * width))
        return _up(height, beta, factor), _up(width, beta, factor)
    return high, wide


def _down(side: int, beta: float, factor: int) -> int:
    return max(factor, math.floor(side / beta / factor) * factor)


def _up(side: int, beta: float, factor: int) -> int:
    return math.ceil(side * beta / factor) * factor


def _check_ratio(height: int, width: int, modality: Modality) -> None:
    ratio = max(height, width) / min(height, width)
    if ratio > MAX_RATIO:
        raise refused(modality, f"its aspect ratio is {ratio:.5g}, and {MAX_RATIO} is the most")

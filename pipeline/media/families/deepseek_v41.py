"""Images of DeepSeek V4.1 as the official library sizes and limits them (deepseek-recipe 0.2).

Its rule is the serving engine's (`deepseek_v4.py`) until nothing changes any more: the two differ
for long strips. Nothing in the model's config changes it. EXIF orientation is not applied.
"""

from __future__ import annotations

import math
from typing import Final

from promptmill.pipeline.media.base import (
    Family,
    FileLimits,
    ImageInfo,
    MediaRule,
    Replacement,
    Site,
    TextCodec,
    refused,
)
from promptmill.pipeline.media.families.deepseek_v4 import Cells, no_arguments, v41_length
from promptmill.pipeline.media.tokens import repeated
from promptmill.pipeline.model.deepseek_tokens import IMAGE_ID, added_ids, image_spelling
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.media import Modality

CELLS: Final = Cells(patch=14, downsample=3, smallest=295_936, widest=None, most=1024)

LONGEST_SIDE: Final = 8192
"""Pixels; a longer image is refused."""
LONGEST_WEBP_SIDE: Final = 16_380
"""Pixels: whole patches that fit into the format in which images are handed on."""
LOW_DETAIL_SIDE: Final = 512
"""Pixels of the longer side, to which an image of low detail is scaled down first."""
MOST_IMAGES: Final = 600
FILE_LIMITS: Final = FileLimits(each=32 << 20, together=64 << 20)
FORMATS: Final = frozenset({"PNG", "JPEG", "MPO", "GIF", "WEBP"})
"""As Pillow names them; MPO is a JPEG with further pictures behind it."""
_MOST_STEPS: Final = 64


def official_v41_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """DeepSeek V4.1 in the tokenizer mode of that name."""
    spelling = image_spelling(added_ids(bundle.backend or "{}"))
    rule = MediaRule(
        expand=expand_image,
        placeholder=spelling,
        target=spelling or "",
        target_ids=(IMAGE_ID,),
        limit=MOST_IMAGES,
    )
    return Family(
        name="DeepSeek V4.1 (official)", image=rule, file_limits=FILE_LIMITS, plain_text=True
    )


def expand_image(info: ImageInfo, site: Site) -> Replacement:
    """The image's id for start, cells, newlines and end; all of them carry embeddings.

    Raises:
        RowError: the library would refuse the image.
    """
    no_arguments(site)
    width, height = (info.height, info.width) if info.rotated else (info.width, info.height)
    if info.format not in FORMATS:
        raise refused(Modality.IMAGE, f"{info.format} is none of PNG, JPEG, GIF and WebP")
    if max(width, height) > LONGEST_SIDE:
        raise refused(Modality.IMAGE, f"{width}x{height} has a side over {LONGEST_SIDE} pixels")
    if site.detail == "low":
        width, height = _fitted(width, height)
    width, height = resized(width, height)
    rows, columns = CELLS.grid(width, height)
    return Replacement(repeated(IMAGE_ID, v41_length(rows, columns)), grid=(1, rows, columns))


def resized(width: int, height: int) -> tuple[int, int]:
    """The (width, height) in pixels that an image is resized to; those of a resized image stay.

    Raises:
        RowError: the size does not settle (none such is known).
    """
    size = width, height
    for _ in range(_MOST_STEPS):
        settled = _step(*size)
        if settled == size:
            return size
        size = settled
    raise refused(Modality.IMAGE, f"no size for {width}x{height} is stable under the resizing rule")


def _step(width: int, height: int) -> tuple[int, int]:
    """One resizing: to the least area, up to whole patches, and down to the most ids."""
    width, height = CELLS.scaled(ImageInfo(width, height))
    rows, columns = CELLS.grid(width, height)
    if v41_length(rows, columns) > CELLS.most:
        width, height = CELLS.shrunk_size(width, height, CELLS.most, step=1)
    return _whole(width), _whole(height)


def _whole(side: int) -> int:
    """A side in whole patches."""
    return min(-(-side // CELLS.patch) * CELLS.patch, LONGEST_WEBP_SIDE)


def _fitted(width: int, height: int) -> tuple[int, int]:
    """Scaled down to `LOW_DETAIL_SIDE`, halves rounded up, at least one pixel a side."""
    longest = max(width, height)
    if longest <= LOW_DETAIL_SIDE:
        return width, height
    wide, high = (
        max(1, math.floor(side * LOW_DETAIL_SIDE / longest + 0.5)) for side in (width, height)
    )
    return wide, high

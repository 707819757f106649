"""Kimi-VL. Its processor is remote code: counts checked, expansion not."""

from __future__ import annotations

import math
from dataclasses import dataclass

from promptmill.pipeline.media.base import (
    Family,
    ImageInfo,
    MediaRule,
    Replacement,
    Site,
    TextCodec,
    register_family,
)
from promptmill.pipeline.media.tokens import need_id, repeated
from promptmill.pipeline.media.values import image_processor
from promptmill.schemas.bundle import ModelBundle

PAD = "<|media_pad|>"
MERGE = 2
"""Patches along a side that become one id."""


@dataclass(frozen=True, slots=True)
class KimiImage:
    """Images scaled down to a number of patches, then padded to whole ids."""

    pad_id: int
    patch: int
    most: int
    """Patches of an image."""

    def expand(self, info: ImageInfo, site: Site) -> Replacement:
        """One id for each merged patch."""
        width, height = info.width, info.height
        patches = (width // self.patch) * (height // self.patch)
        if patches > self.most:
            scale = math.sqrt(self.most / patches)
            width, height = int(width * scale), int(height * scale)
        unit = self.patch * MERGE
        rows, columns = math.ceil(height / unit), math.ceil(width / unit)
        grid = (1, rows * MERGE, columns * MERGE)
        return Replacement(repeated(self.pad_id, rows * columns), grid=grid)


@register_family("KimiVLForConditionalGeneration", "kimi_vl")
def kimi_vl_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """Kimi-VL."""
    files = image_processor(bundle)
    images = KimiImage(
        need_id(codec, PAD), files.side("patch_size", 14), files.integer("in_token_limit", 4096)
    )
    rule = MediaRule(
        expand=images.expand,
        placeholder=f"<|media_start|>image<|media_content|>{PAD}<|media_end|>",
        target=PAD,
    )
    return Family(name="Kimi-VL", image=rule)

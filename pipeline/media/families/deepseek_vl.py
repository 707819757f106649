"""DeepSeek-VL2 and DeepSeek-OCR."""

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
from promptmill.pipeline.media.tiles import best_resolution, closest_ratio, ratios_of_set
from promptmill.pipeline.media.tokens import need_id, repeated
from promptmill.pipeline.media.values import config_values, processor
from promptmill.schemas.bundle import ModelBundle

CROPPED_AT_MOST = 2
"""Images of a row above which DeepSeek-VL2 cuts none of them into tiles."""

OCR_WHOLE, OCR_TILE, OCR_TILES = 1024, 640, (2, 6)
"""DeepSeek-OCR's picture sizes in pixels and its range of tiles; fixed in the server."""


@dataclass(frozen=True, slots=True)
class DeepseekVL2Image:
    """The whole image, then its tiles, both in rows with newlines."""

    image_id: int
    candidates: tuple[tuple[int, int], ...]
    """(width, height) that the image may be fitted into."""
    tile: int
    """Pixels along a side."""
    side: int
    """Ids along a side of one tile."""

    def expand(self, info: ImageInfo, site: Site) -> Replacement:
        """One id for each cell, newline and separator."""
        rows = columns = 1
        if site.count <= CROPPED_AT_MOST:
            sizes = [(height, width) for width, height in self.candidates]
            height, width = best_resolution(info.height, info.width, sizes)
            rows, columns = height // self.tile, width // self.tile
        whole = self.side * (self.side + 1)
        tiles = rows * self.side * (columns * self.side + 1)
        return Replacement(repeated(self.image_id, whole + 1 + tiles))


@dataclass(frozen=True, slots=True)
class DeepseekOCRImage:
    """The whole image; of a larger one tiles as well."""

    image_id: int
    unit: int
    """Pixels along a side of one id."""

    def expand(self, info: ImageInfo, site: Site) -> Replacement:
        """One id for each cell, newline and separator."""
        side = math.ceil(OCR_WHOLE / self.unit)
        count = side * (side + 1) + 1
        if info.width > OCR_TILE or info.height > OCR_TILE:
            ratios = ratios_of_set(*OCR_TILES)
            columns, rows = closest_ratio(info.height, info.width, ratios, OCR_TILE)
            small = math.ceil(OCR_TILE / self.unit)
            count += rows * small * (columns * small + 1)
        return Replacement(repeated(self.image_id, count))


@register_family("DeepseekVLV2ForCausalLM", "deepseek_vl_v2")
def deepseek_vl2_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """DeepSeek-VL2."""
    config, texts = config_values(bundle), processor(bundle)
    tile = config.child("vision_config").side("image_size", 384)
    patches = tile // texts.side("patch_size", 14)
    token = texts.text("image_token", "<image>")
    images = DeepseekVL2Image(
        need_id(codec, token),
        config.pairs("candidate_resolutions"),
        tile,
        math.ceil(patches / texts.integer("downsample_ratio", 2)),
    )
    rule = MediaRule(expand=images.expand, placeholder=token, target=token)
    return Family(name="DeepSeek-VL2", image=rule)


@register_family("DeepseekOCRForCausalLM")
def deepseek_ocr_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """DeepSeek-OCR."""
    texts = processor(bundle)
    token = texts.text("image_token", "<image>")
    unit = texts.side("patch_size", 16) * texts.integer("downsample_ratio", 4)
    images = DeepseekOCRImage(need_id(codec, token), unit)
    rule = MediaRule(expand=images.expand, placeholder=token, target=token)
    return Family(name="DeepSeek-OCR", image=rule)

"""Phi-3.5-vision and Phi-4-multimodal.

Their processors are remote code: Phi-4's counts are checked, Phi-3.5's and both expansions not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from promptmill.pipeline.media.base import (
    INDEX,
    AudioInfo,
    Family,
    ImageInfo,
    MediaRule,
    Replacement,
    Site,
    TextCodec,
    refused,
    register_family,
)
from promptmill.pipeline.media.resample import samples_at
from promptmill.pipeline.media.tiles import closest_ratio, ratios_of_set
from promptmill.pipeline.media.tokens import repeated
from promptmill.pipeline.media.values import image_processor
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.media import Modality

IMAGE, AUDIO = f"<|image_{INDEX}|>", f"<|audio_{INDEX}|>"

PHI3_IMAGE, PHI4_IMAGE, PHI4_AUDIO = 32_044, 200_010, 200_011
"""Ids that the server puts in for media, whatever the tokenizer calls them."""

PHI3_TILE, PHI4_TILE, PATCH = 336, 448, 14
"""Pixels along a side."""

WINDOW, HOP, RATE, FRAMES_PER_ID = 400, 160, 16_000, 8
"""Samples of a frame, samples from frame to frame, samples a second, frames of one id."""


@dataclass(frozen=True, slots=True)
class Phi3Image:
    """Images scaled up to as many tiles as fit, the short side padded."""

    most: int
    """Tiles."""
    per_tile: int

    def expand(self, info: ImageInfo, site: Site) -> Replacement:
        """Tiles, the whole, a newline a row and a separator."""
        ratio = max(info.width, info.height) / min(info.width, info.height)
        scale = 1
        while (scale + 1) * math.ceil((scale + 1) / ratio) <= self.most:
            scale += 1
        tall = math.ceil(int(scale * PHI3_TILE / ratio) / PHI3_TILE)
        rows, columns = (scale, tall) if info.width < info.height else (tall, scale)
        count = (rows * columns + 1) * self.per_tile + 1 + (rows + 1) * 12
        return Replacement(repeated(PHI3_IMAGE, count))


@dataclass(frozen=True, slots=True)
class Phi4Image:
    """Images in tiles without their padding, and the whole."""

    most: int
    """Tiles."""

    def expand(self, info: ImageInfo, site: Site) -> Replacement:
        """Cells of the tiles, a newline a row, and what the whole always is."""
        columns, rows = math.ceil(info.width / PHI4_TILE), math.ceil(info.height / PHI4_TILE)
        if columns * rows > self.most:
            ratios = ratios_of_set(1, self.most)
            columns, rows = closest_ratio(info.height, info.width, ratios, PHI4_TILE)
        wide, high = columns * PHI4_TILE, rows * PHI4_TILE
        across, down = wide / info.width, high / info.height
        pad_right = 0 if across < down else wide - int(info.width * down)
        pad_below = high - int(info.height * across) if across < down else 0
        width = math.ceil((wide // PATCH - pad_right // PATCH) / 2)
        height = math.ceil((high // PATCH - pad_below // PATCH) / 2)
        return Replacement(repeated(PHI4_IMAGE, 256 + 1 + height * width + height + 16))


def expand_phi4_audio(info: AudioInfo, site: Site) -> Replacement:
    """One id for eight frames."""
    samples = samples_at(info, RATE)
    if samples < WINDOW:
        raise refused(Modality.AUDIO, f"it has {samples} samples, and {WINDOW} are the least")
    frames = (samples - WINDOW) // HOP + 1
    return Replacement(repeated(PHI4_AUDIO, math.ceil(frames / FRAMES_PER_ID)))


@register_family("Phi3VForCausalLM", "phi3_v")
def phi3_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """Phi-3-vision and Phi-3.5-vision."""
    files = image_processor(bundle)
    images = Phi3Image(files.integer("num_crops", 1), files.integer("num_img_tokens", 144))
    return Family(
        name="Phi-3-vision",
        image=MediaRule(expand=images.expand, placeholder=IMAGE, target=IMAGE),
    )


@register_family("Phi4MMForCausalLM", "phi4mm")
def phi4_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """Phi-4-multimodal."""
    images = Phi4Image(image_processor(bundle).integer("dynamic_hd", 36))
    return Family(
        name="Phi-4-multimodal",
        image=MediaRule(expand=images.expand, placeholder=IMAGE, target=IMAGE),
        audio=MediaRule(expand=expand_phi4_audio, placeholder=AUDIO, target=AUDIO),
    )

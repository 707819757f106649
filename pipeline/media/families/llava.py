"""LLaVA 1.5, LLaVA-NeXT and LLaVA-OneVision."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from promptmill.pipeline.media.base import (
    Family,
    ImageInfo,
    MediaRule,
    Replacement,
    Site,
    TextCodec,
    VideoInfo,
    register_family,
)
from promptmill.pipeline.media.families.pixtral import pixtral_family
from promptmill.pipeline.media.sampling import evenly, resample_evenly, sample
from promptmill.pipeline.media.tiles import best_resolution
from promptmill.pipeline.media.tokens import need_id, repeated
from promptmill.pipeline.media.values import Values, config_values, processor, row_values
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.media import Modality

ONEVISION_MAX_TILES = 9
"""Tiles' worth of tokens that LLaVA-OneVision keeps at most; fixed in the server."""


@dataclass(frozen=True, slots=True)
class Tower:
    """The vision tower: one picture of fixed size."""

    image_size: int
    """Pixels along a side."""
    side: int
    """Patches along a side."""
    tokens: int
    """Ids of one picture, under the model's way of choosing features."""


def read_tower(config: Values) -> Tower:
    """The tower of a LLaVA config; CLIP has a class token, which "default" drops.

    Raises:
        JobError: another tower.
    """
    vision = config.child("vision_config")
    kind = vision.text("model_type", "clip_vision_model")
    if kind not in ("clip_vision_model", "siglip_vision_model"):
        vision.fail("model_type", "clip_vision_model or siglip_vision_model")
    image_size, patch = vision.side("image_size"), vision.side("patch_size")
    side = image_size // patch
    tokens = side * side + (kind == "clip_vision_model")
    if config.text("vision_feature_select_strategy", "default") == "default":
        tokens -= 1
    return Tower(image_size, side, tokens)


def anyres_tokens(
    info: ImageInfo, tower: Tower, pinpoints: tuple[tuple[int, int], ...], most: int | None
) -> int:
    """Ids of an image cut into tiles: the whole, its tiles without padding, a newline a row.

    Args:
        info: the image.
        tower: what one tile becomes.
        pinpoints: (height, width) that the image may be fitted into.
        most: tiles' worth of tokens above which the tiles are shrunk; None: never.
    """
    high, wide = best_resolution(info.height, info.width, pinpoints)
    rows = tower.side * (high // tower.image_size)
    columns = tower.side * (wide // tower.image_size)
    rows, columns = _unpadded(info, rows, columns)
    if most is not None:
        ratio = math.sqrt(rows * columns / (most * tower.side**2))
        if ratio > 1.1:
            rows, columns = int(rows // ratio), int(columns // ratio)
    return rows * columns + rows + tower.tokens


def _unpadded(info: ImageInfo, rows: int, columns: int) -> tuple[int, int]:
    """Rows and columns of features once those of the padding are gone."""
    if info.width / info.height > columns / rows:
        kept = int(round(info.height * (columns / info.width), 7))
        return rows - 2 * ((rows - kept) // 2), columns
    kept = int(round(info.width * (rows / info.height), 7))
    return rows, columns - 2 * ((columns - kept) // 2)


def _expand_fixed(image_id: int, count: int, info: ImageInfo, site: Site) -> Replacement:
    return Replacement(repeated(image_id, count))


@dataclass(frozen=True, slots=True)
class AnyRes:
    """Images cut into tiles by the model's list of sizes."""

    image_id: int
    tower: Tower
    pinpoints: tuple[tuple[int, int], ...]
    most: int | None = None

    def expand(self, info: ImageInfo, site: Site) -> Replacement:
        """One id for every feature, newlines among them."""
        asked = row_values(site.kwargs, Modality.IMAGE)
        if asked.get("image_grid_pinpoints") is not None:
            asked.fail("image_grid_pinpoints", "left to the model; the server cannot change it")
        count = anyres_tokens(info, self.tower, self.pinpoints, self.most)
        return Replacement(repeated(self.image_id, count))


def _expand_video(video_id: int, tower: Tower, info: VideoInfo, site: Site) -> Replacement:
    """Every frame pooled to half its side, one newline at the end.

    The processor is not told where the frames come from: it samples among those it gets.
    """
    count = len(sample(info, site, evenly, None))
    asked = row_values(site.kwargs, Modality.VIDEO)
    if asked.flag("do_sample_frames", False):
        given = VideoInfo(info.width, info.height, count, fps=0.0)
        count = len(resample_evenly(given, asked))
    return Replacement(repeated(video_id, count * math.ceil(tower.side / 2) ** 2 + 1))


@register_family("LlavaForConditionalGeneration", "llava")
def llava_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """LLaVA 1.5; with Pixtral's vision tower, Pixtral in Hugging Face's format."""
    config = config_values(bundle)
    if config.child("vision_config").text("model_type", "") == "pixtral":
        return pixtral_family(bundle, codec)
    token = processor(bundle).text("image_token", "<image>")
    expand = partial(_expand_fixed, need_id(codec, token), read_tower(config).tokens)
    return Family(name="LLaVA", image=MediaRule(expand=expand, placeholder=token, target=token))


@register_family("LlavaNextForConditionalGeneration", "llava_next")
def llava_next_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """LLaVA-NeXT."""
    config = config_values(bundle)
    token = processor(bundle).text("image_token", "<image>")
    images = AnyRes(need_id(codec, token), read_tower(config), config.pairs("image_grid_pinpoints"))
    rule = MediaRule(expand=images.expand, placeholder=token, target=token)
    return Family(name="LLaVA-NeXT", image=rule)


@register_family("LlavaOnevisionForConditionalGeneration", "llava_onevision")
def llava_onevision_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """LLaVA-OneVision."""
    config, texts = config_values(bundle), processor(bundle)
    tower = read_tower(config)
    image, video = texts.text("image_token", "<image>"), texts.text("video_token", "<video>")
    images = AnyRes(
        need_id(codec, image), tower, config.pairs("image_grid_pinpoints"), ONEVISION_MAX_TILES
    )
    frames = partial(_expand_video, need_id(codec, video), tower)
    return Family(
        name="LLaVA-OneVision",
        image=MediaRule(expand=images.expand, placeholder=image, target=image),
        video=MediaRule(expand=frames, placeholder=video, target=video),
    )

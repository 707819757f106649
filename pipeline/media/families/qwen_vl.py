"""Qwen2-VL, Qwen2.5-VL, Qwen3-VL and those that share their processors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from promptmill.pipeline.media.base import (
    Family,
    ImageInfo,
    MediaRule,
    Replacement,
    Site,
    TextCodec,
    VideoInfo,
    refused,
    register_family,
)
from promptmill.pipeline.media.patch_grid import PatchGrid
from promptmill.pipeline.media.resize import AreaBounds, smart_resize, smart_resize_frames
from promptmill.pipeline.media.sampling import (
    DEFAULT_FPS,
    qwen2_vl,
    qwen3_vl,
    sample,
    spread,
    steps,
)
from promptmill.pipeline.media.tokens import find_id, need_id, repeated
from promptmill.pipeline.media.values import Values, image_processor, row_values, video_processor
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.media import Modality

IMAGE = "<|image_pad|>"
VIDEO = "<|video_pad|>"
START = "<|vision_start|>"
END = "<|vision_end|>"

QWEN2_IMAGE = PatchGrid(patch=14, merge=2, bounds=AreaBounds(56 * 56, 28 * 28 * 1280))
"""The image processor's published class defaults."""
QWEN2_VIDEO = PatchGrid(patch=14, merge=2, bounds=AreaBounds(128 * 28 * 28, 28 * 28 * 768))
QWEN3_IMAGE = PatchGrid(
    patch=14, merge=2, bounds=AreaBounds(56 * 56, 28 * 28 * 1280), half_size=True
)
QWEN3_VIDEO = PatchGrid(
    patch=16, merge=2, bounds=AreaBounds(128 * 32 * 32, 32 * 32 * 768), half_size=True
)


def image_grid(grid: PatchGrid, info: ImageInfo) -> tuple[int, int, int]:
    """(1, h, w) patches of an image.

    Raises:
        RowError: MEDIA_UNSUPPORTED; too thin, or not whole patches where nothing is resized.
    """
    height, width = info.height, info.width
    if grid.resizes:
        height, width = smart_resize(height, width, factor=grid.factor, bounds=grid.bounds)
    elif height % grid.factor or width % grid.factor:
        raise refused(
            Modality.IMAGE,
            f"it is {width}x{height}, and without do_resize both sides must be multiples of "
            f"{grid.factor}",
        )
    return 1, height // grid.patch, width // grid.patch


def expand_image(image_id: int, grid: PatchGrid, info: ImageInfo, site: Site) -> Replacement:
    """One id for each merged patch."""
    asked = grid.asked(row_values(site.kwargs, Modality.IMAGE))
    patches = image_grid(asked, info)
    return Replacement(repeated(image_id, asked.tokens(patches)), grid=patches)


def expand_qwen2_video(video_id: int, grid: PatchGrid, info: VideoInfo, site: Site) -> Replacement:
    """One id for each merged patch of all pairs of frames."""
    asked = grid.asked(row_values(site.kwargs, Modality.VIDEO))
    frames = sample(info, site, qwen2_vl, resample_qwen2)
    height, width = smart_resize(info.height, info.width, factor=asked.factor, bounds=asked.bounds)
    pairs = -(-len(frames) // asked.temporal)
    patches = (pairs, height // asked.patch, width // asked.patch)
    return Replacement(repeated(video_id, asked.tokens(patches)), grid=patches)


@dataclass(frozen=True, slots=True)
class Qwen3Video:
    """Qwen3-VL's videos: every pair of frames stands alone, with its time in front."""

    grid: PatchGrid
    video_id: int
    start_id: int
    end_id: int
    codec: TextCodec

    def expand(self, info: VideoInfo, site: Site) -> Replacement:
        """For each pair: "<%.1f seconds>", start, pads, end."""
        asked = self.grid.asked(row_values(site.kwargs, Modality.VIDEO))
        frames = sample(info, site, qwen3_vl, resample_qwen3)
        height, width = smart_resize_frames(
            len(frames),
            info.height,
            info.width,
            factor=asked.factor,
            temporal_factor=asked.temporal,
            bounds=asked.bounds,
            modality=Modality.VIDEO,
        )
        times = frames.seconds()
        times += times[-1:] * (-len(times) % asked.temporal)
        starts, ends = times[:: asked.temporal], times[asked.temporal - 1 :: asked.temporal]
        patches = (len(starts), height // asked.patch, width // asked.patch)
        pads = repeated(self.video_id, asked.tokens((1, *patches[1:])))
        pieces = []
        for first, last in zip(starts, ends, strict=True):
            text, _ = self.codec.encode(f"<{(first + last) / 2:.1f} seconds>")
            pieces += [text, repeated(self.start_id, 1), pads, repeated(self.end_id, 1)]
        return Replacement(np.concatenate(pieces), self.video_id, patches)


def resample_qwen2(info: VideoInfo, asked: Values) -> list[int]:
    """The video processor's own sampling: all frames unless `fps` or `num_frames` is asked for."""
    _check_one_way(asked)
    if asked.get("num_frames") is not None:
        return steps(info.frames, round(asked.integer("num_frames") / 2) * 2)
    if asked.get("fps") is None:
        return list(range(info.frames))
    most = min(asked.integer("max_frames", 768), info.frames) // 2 * 2
    wanted = info.frames / info.fps * asked.number("fps")
    return steps(info.frames, min(max(wanted, asked.integer("min_frames", 4)), most))


def resample_qwen3(info: VideoInfo, asked: Values) -> list[int]:
    """The video processor's own sampling: 2 frames a second, 4 to 768 of them."""
    _check_one_way(asked)
    if asked.get("num_frames") is not None:
        return spread(info.frames, asked.integer("num_frames"))
    wanted = int(info.frames / (info.fps or DEFAULT_FPS) * asked.number("fps", 2.0))
    return spread(info.frames, min(max(wanted, 4), 768, info.frames))


def _check_one_way(asked: Values) -> None:
    if asked.get("fps") is not None and asked.get("num_frames") is not None:
        asked.fail("fps", "left out where num_frames is given")


def image_rule(codec: TextCodec, grid: PatchGrid) -> MediaRule[ImageInfo]:
    """Images between vision start and end."""
    return MediaRule(
        expand=partial(expand_image, need_id(codec, IMAGE), grid),
        placeholder=START + IMAGE + END,
        target=IMAGE,
    )


@register_family(
    "Qwen2VLForConditionalGeneration",
    "Qwen2_5_VLForConditionalGeneration",
    "qwen2_vl",
    "qwen2_5_vl",
)
def qwen2_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """Qwen2-VL and Qwen2.5-VL."""
    video = None
    if (video_id := find_id(codec, VIDEO)) is not None:  # small tokenizers may lack it
        grid = QWEN2_VIDEO.read(video_processor(bundle))
        video = MediaRule(
            expand=partial(expand_qwen2_video, video_id, grid),
            placeholder=START + VIDEO + END,
            target=VIDEO,
        )
    image = image_rule(codec, QWEN2_IMAGE.read(image_processor(bundle)))
    return Family(name="Qwen2-VL", image=image, video=video)


@register_family(
    "Qwen3VLForConditionalGeneration",
    "Qwen3VLMoeForConditionalGeneration",
    "Qwen3_5ForConditionalGeneration",
    "Qwen3_5MoeForConditionalGeneration",
    "qwen3_vl",
    "qwen3_vl_moe",
    "qwen3_5",
    "qwen3_5_moe",
)
def qwen3_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """Qwen3-VL."""
    video = Qwen3Video(
        QWEN3_VIDEO.read(video_processor(bundle)),
        need_id(codec, VIDEO),
        need_id(codec, START),
        need_id(codec, END),
        codec,
    )
    return Family(
        name="Qwen3-VL",
        image=image_rule(codec, QWEN3_IMAGE.read(image_processor(bundle))),
        video=MediaRule(expand=video.expand, placeholder=START + VIDEO + END, target=VIDEO),
    )

"""GLM-4.1V and GLM-4.5V."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

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
from promptmill.pipeline.media.patch_grid import PatchGrid
from promptmill.pipeline.media.resize import AreaBounds, smart_resize_frames
from promptmill.pipeline.media.sampling import opencv_dynamic, per_second, sample
from promptmill.pipeline.media.tokens import encoder, need_id, repeated
from promptmill.pipeline.media.values import Values, image_processor, row_values, video_processor
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.media import Modality
from promptmill.schemas.request import Ids

IMAGE, BEGIN, END = "<|image|>", "<|begin_of_image|>", "<|end_of_image|>"
VIDEO, BEGIN_VIDEO, END_VIDEO = "<|video|>", "<|begin_of_video|>", "<|end_of_video|>"

IMAGE_GRID = PatchGrid(
    patch=14, merge=2, bounds=AreaBounds(112 * 112, 28 * 28 * 15000), pixel_names=False
)
"""The image processor's published class defaults."""
VIDEO_GRID = PatchGrid(
    patch=14, merge=2, bounds=AreaBounds(112 * 112, 28 * 28 * 2 * 30000), pixel_names=False
)


def _grid(
    asked: PatchGrid, frames: int, height: int, width: int, modality: Modality
) -> tuple[int, int, int]:
    """(t, h, w) patches of a stack of frames; an image counts as one temporal patch."""
    height, width = smart_resize_frames(
        frames,
        height,
        width,
        factor=asked.factor,
        temporal_factor=asked.temporal,
        bounds=asked.bounds,
        modality=modality,
    )
    return -(-frames // asked.temporal), height // asked.patch, width // asked.patch


@dataclass(frozen=True, slots=True)
class Glm4vImage:
    """Images."""

    grid: PatchGrid
    image_id: int

    def expand(self, info: ImageInfo, site: Site) -> Replacement:
        """One id for each merged patch."""
        asked = self.grid.asked(row_values(site.kwargs, Modality.IMAGE))
        patches = _grid(asked, asked.temporal, info.height, info.width, Modality.IMAGE)
        return Replacement(repeated(self.image_id, asked.tokens(patches)), grid=patches)


@dataclass(frozen=True, slots=True)
class Glm4vVideo:
    """Videos: every pair of frames is an image, with its second behind it."""

    grid: PatchGrid
    image_id: int
    begin: Ids
    end: Ids
    encode: Callable[[str], Ids]

    def expand(self, info: VideoInfo, site: Site) -> Replacement:
        """For each pair: begin of image, ids, end of image, second."""
        asked = self.grid.asked(row_values(site.kwargs, Modality.VIDEO))
        frames = sample(info, site, opencv_dynamic, resample_glm4v, obeys=False)
        patches = _grid(asked, len(frames), info.height, info.width, Modality.VIDEO)
        pads = repeated(self.image_id, asked.tokens((1, *patches[1:])))
        pieces = [self.encode(BEGIN_VIDEO)]
        for second in frames.seconds()[:: asked.temporal]:
            pieces += [self.begin, pads, self.end, self.encode(str(int(second)))]
        return Replacement(
            np.concatenate([*pieces, self.encode(END_VIDEO)]), self.image_id, patches
        )


def resample_glm4v(info: VideoInfo, asked: Values) -> list[int]:
    """The video processor's own sampling: as the loader's, at least one, an even number."""
    found = per_second(info, asked.number("fps", 2.0), 300.0, least=1)
    return found + found[-1:] * (len(found) % 2)


@register_family(
    "Glm4vForConditionalGeneration", "Glm4vMoeForConditionalGeneration", "glm4v", "glm4v_moe"
)
def glm4v_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """GLM-4.1V."""
    encode, image_id = encoder(codec), need_id(codec, IMAGE)
    images = Glm4vImage(IMAGE_GRID.read(image_processor(bundle)), image_id)
    videos = Glm4vVideo(
        VIDEO_GRID.read(video_processor(bundle)), image_id, encode(BEGIN), encode(END), encode
    )
    video = BEGIN_VIDEO + VIDEO + END_VIDEO
    return Family(
        name="GLM-4.1V",
        image=MediaRule(expand=images.expand, placeholder=BEGIN + IMAGE + END, target=IMAGE),
        video=MediaRule(expand=videos.expand, placeholder=video, target=video, limit=1),
    )

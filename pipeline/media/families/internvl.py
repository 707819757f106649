"""InternVL in Hugging Face's format and as OpenGVLab publishes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

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
from promptmill.pipeline.media.sampling import evenly, resample_evenly, sample
from promptmill.pipeline.media.tiles import closest_ratio, ratios_in_order, ratios_of_set
from promptmill.pipeline.media.tokens import encoder, find_id, need_id, special_token
from promptmill.pipeline.media.values import (
    Values,
    config_values,
    image_processor,
    processor,
    row_values,
)
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.media import Modality
from promptmill.schemas.request import Ids

BEGIN, CONTEXT, END = "<img>", "<IMG_CONTEXT>", "</img>"
CHAT_VIDEO = "<|video_pad|>"
_DYNAMIC = ("min_dynamic_patch", "max_dynamic_patch", "use_thumbnail", "dynamic_image_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """How many tiles an image becomes."""

    tile: int
    """Pixels along a side."""
    least: int
    most: int
    splits: bool = True
    thumbnail: bool = True
    """An image of several tiles also comes as a whole."""
    ratios: Callable[[int, int], Sequence[tuple[int, int]]]

    def tiles(self, info: ImageInfo) -> int:
        """Tiles of an image, the whole among them."""
        if not self.splits:
            return 1
        candidates = self.ratios(self.least, self.most)
        columns, rows = closest_ratio(info.height, info.width, candidates, self.tile)
        count = columns * rows
        return count + 1 if self.thumbnail and count > 1 else count


@dataclass(frozen=True, slots=True)
class Pictures:
    """Pictures in frames of two tokens, as text."""

    token: str
    token_id: int
    begin: str
    end: str
    per_tile: int
    """Ids of one tile."""
    encode: Callable[[str], Ids]

    def image(self, tiles: int) -> Replacement:
        """One image of several tiles."""
        text = f"{self.begin}{self.token * (self.per_tile * tiles)}{self.end}"
        return Replacement(self.encode(text), self.token_id)

    def video(self, frames: int, between: str) -> Replacement:
        """Numbered frames of one tile each, tokenized together."""
        picture = f"{self.begin}{self.token * self.per_tile}{self.end}"
        text = between.join(f"Frame{n}: {picture}" for n in range(1, frames + 1))
        return Replacement(self.encode(text), self.token_id)


@dataclass(frozen=True, slots=True)
class InternVLImage:
    """Images in Hugging Face's format."""

    tiling: Tiling
    pictures: Pictures

    def expand(self, info: ImageInfo, site: Site) -> Replacement:
        """Tiles by aspect ratio."""
        asked = row_values(site.kwargs, Modality.IMAGE)
        if asked.get("size") is not None:
            asked.fail("size", "left to the model; the server's processor refuses it")
        tiling = replace(
            self.tiling,
            least=asked.integer("min_patches", self.tiling.least),
            most=asked.integer("max_patches", self.tiling.most),
            splits=asked.flag("crop_to_patches", self.tiling.splits),
        )
        return self.pictures.image(tiling.tiles(info))


@dataclass(frozen=True, slots=True)
class InternVLChatImage:
    """Images of the published checkpoints."""

    tiling: Tiling
    pictures: Pictures
    fixed: bool
    """The processor of videos refuses the arguments of images."""

    def expand(self, info: ImageInfo, site: Site) -> Replacement:
        """Tiles by aspect ratio."""
        asked = row_values(site.kwargs, Modality.IMAGE)
        given = [name for name in _DYNAMIC if asked.get(name) is not None]
        if given and self.fixed:
            asked.fail(given[0], "left to the model; the server's processor refuses it")
        return self.pictures.image(read_dynamic(asked, self.tiling).tiles(info))


def read_dynamic(values: Values, default: Tiling) -> Tiling:
    """Tiling as config.json or a row says it."""
    return replace(
        default,
        least=values.integer("min_dynamic_patch", default.least),
        most=values.integer("max_dynamic_patch", default.most),
        splits=values.flag("dynamic_image_size", default.splits),
        thumbnail=values.flag("use_thumbnail", default.thumbnail),
    )


@dataclass(frozen=True, slots=True)
class InternVLVideo:
    """Videos; the size of the frames does not count."""

    pictures: Pictures
    between: str
    resamples: bool

    def expand(self, info: VideoInfo, site: Site) -> Replacement:
        """Every frame one tile."""
        resample = resample_evenly if self.resamples else None
        return self.pictures.video(len(sample(info, site, evenly, resample)), self.between)


@register_family("InternVLForConditionalGeneration", "internvl")
def internvl_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """InternVL in Hugging Face's format."""
    begin = special_token(bundle, "start_image_token", BEGIN)
    end = special_token(bundle, "end_image_token", END)
    files, encode = image_processor(bundle), encoder(codec)
    per_tile = processor(bundle).integer("image_seq_length", 256)

    def pictures(token: str) -> Pictures:
        return Pictures(token, need_id(codec, token), begin, end, per_tile, encode)

    image = special_token(bundle, "context_image_token", CONTEXT)
    video = special_token(bundle, "video_token", "<video>")
    tiling = Tiling(
        tile=files.child("size").integer("height", 384),
        least=files.integer("min_patches", 1),
        most=files.integer("max_patches", 12),
        ratios=ratios_in_order,
    )
    images = InternVLImage(tiling, pictures(image))
    videos = InternVLVideo(pictures(video), "\n", resamples=True)
    return Family(
        name="InternVL",
        image=MediaRule(expand=images.expand, placeholder=image, target=image),
        video=MediaRule(expand=videos.expand, placeholder=video, target=video),
    )


@register_family("InternVLChatModel", "internvl_chat")
def internvl_chat_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """InternVL as published: its placeholders are ordinary text."""
    config, encode = config_values(bundle), encoder(codec)
    vision = config.child("vision_config")
    size = config.integer("force_image_size", vision.side("image_size"))
    side = size // vision.side("patch_size")
    per_tile = int(side * side * config.number("downsample_ratio", 0.5) ** 2)

    def pictures(token: str) -> Pictures:
        return Pictures(token, need_id(codec, token), BEGIN, END, per_tile, encode)

    tiling = read_dynamic(
        config, Tiling(tile=size, least=1, most=12, thumbnail=False, ratios=ratios_of_set)
    )
    watches = find_id(codec, CHAT_VIDEO) is not None
    images = InternVLChatImage(tiling, pictures(CONTEXT), fixed=watches)
    video = None
    if watches:
        videos = InternVLVideo(pictures(CHAT_VIDEO), "", resamples=False)
        video = MediaRule(expand=videos.expand, placeholder="<video>", target="<video>")
    return Family(
        name="InternVLChat",
        image=MediaRule(expand=images.expand, placeholder="<image>", target="<image>"),
        video=video,
    )

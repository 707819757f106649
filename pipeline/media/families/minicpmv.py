"""MiniCPM-V 4.6."""

from __future__ import annotations

import math
from collections.abc import Callable
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
from promptmill.pipeline.media.sampling import evenly, sample
from promptmill.pipeline.media.tokens import encoder, need_id, special_token
from promptmill.pipeline.media.values import Values, image_processor, row_values, video_processor
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.media import Modality
from promptmill.schemas.request import Ids

MERGES = 4
"""Patches along a side that merge, in two steps of two."""


@dataclass(frozen=True, slots=True)
class Slicing:
    """How a picture becomes a small whole and slices."""

    resolution: int
    """Pixels along a side of what the encoder sees at a time."""
    patch: int
    most: int
    """Slices."""
    divisor: int
    """Patches that become one id."""
    slices: bool = True

    def asked(self, values: Values) -> Slicing:
        """The same under the arguments of a row; the others of the processor do not count."""
        mode = values.text("downsample_mode", "")
        return replace(
            self,
            most=values.integer("max_slice_nums", self.most),
            divisor=_DIVISORS.get(mode, self.divisor),
        )

    def grid(self, height: int, width: int) -> tuple[int, int] | None:
        """(rows, columns) of slices, nearest to the picture's ratio; None: it is not sliced."""
        wanted = min(math.ceil(width * height / self.resolution**2), self.most)
        if not self.slices or wanted <= 1:
            return None
        best, least = (1, 1), math.inf
        for count in (wanted - 1, wanted, wanted + 1):
            if count == 1 or count > self.most:
                continue
            for rows in (n for n in range(1, count + 1) if count % n == 0):
                columns = count // rows
                error = abs(math.log(width / height) - math.log(columns / rows))
                if error < least or (error == least and rows > best[0]):
                    best, least = (rows, columns), error
        return best

    def tokens(self, height: float, width: float, *, upscale: bool) -> int:
        """Ids of a picture or of one slice."""
        if height * width > self.resolution**2 or upscale:
            ratio = width / height
            height = int(self.resolution / math.sqrt(ratio))
            width = int(height * ratio)
        unit = self.patch * MERGES
        patches = _nearest(height, unit) * _nearest(width, unit) // self.patch**2
        return patches // self.divisor

    def slice_tokens(self, height: int, width: int, grid: tuple[int, int]) -> int:
        """Ids of one slice of a picture."""
        rows, columns = grid
        return self.tokens(
            _nearest(height, rows) / rows, _nearest(width, columns) / columns, upscale=True
        )


_DIVISORS = {"16x": 16, "4x": 4}


def _nearest(length: float, unit: int) -> int:
    """The multiple of `unit` nearest to a length, half to even, at least one."""
    return max(round(length / unit) * unit, unit)


@dataclass(frozen=True, slots=True)
class Marks:
    """The tokens around pictures, and how text becomes ids."""

    pad: str
    pad_id: int
    number: tuple[str, str]
    whole: tuple[str, str]
    part: tuple[str, str]
    encode: Callable[[str], Ids]

    def numbered(self, index: int) -> str:
        """The number of an item, as text."""
        return f"{self.number[0]}{index}{self.number[1]}"

    def picture(self, slicing: Slicing, height: int, width: int) -> str:
        """A picture as text: the whole, then its slices row by row."""
        grid = slicing.grid(height, width)
        count = slicing.tokens(height, width, upscale=grid is None)
        whole = f"{self.whole[0]}{self.pad * count}{self.whole[1]}"
        if grid is None:
            return whole
        pads = self.pad * slicing.slice_tokens(height, width, grid)
        row = f"{self.part[0]}{pads}{self.part[1]}" * grid[1]
        return whole + "\n".join([row] * grid[0])


@dataclass(frozen=True, slots=True)
class MiniCPMImage:
    """Images."""

    slicing: Slicing
    marks: Marks

    def expand(self, info: ImageInfo, site: Site) -> Replacement:
        """The image's number, then the image."""
        slicing = self.slicing.asked(row_values(site.kwargs, Modality.IMAGE))
        text = self.marks.numbered(site.index) + self.marks.picture(
            slicing, info.height, info.width
        )
        return Replacement(self.marks.encode(text), self.marks.pad_id)


@dataclass(frozen=True, slots=True)
class MiniCPMVideo:
    """Videos: every frame is a picture."""

    slicing: Slicing
    marks: Marks

    def expand(self, info: VideoInfo, site: Site) -> Replacement:
        """The video's number, then its frames."""
        asked = row_values(site.kwargs, Modality.VIDEO)
        for name in ("fps", "num_frames", "do_sample_frames"):
            if asked.get(name) is not None:
                asked.fail(name, "left out; the server's processor refuses it")
        frames = len(sample(info, site, evenly, None))
        picture = self.marks.picture(self.slicing.asked(asked), info.height, info.width)
        text = self.marks.numbered(site.index) + picture * frames
        return Replacement(self.marks.encode(text), self.marks.pad_id)


@register_family("MiniCPMV4_6ForConditionalGeneration", "minicpmv4_6")
def minicpmv_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """MiniCPM-V 4.6."""
    encode = encoder(codec)

    def marks(token: str) -> Marks:
        return Marks(
            token,
            need_id(codec, token),
            number=_pair(bundle, "image_id"),
            whole=_pair(bundle, "image"),
            part=_pair(bundle, "slice"),
            encode=encode,
        )

    image = special_token(bundle, "image_token", "<|image_pad|>")
    video = special_token(bundle, "video_token", "<|video_pad|>")
    images = MiniCPMImage(_slicing(image_processor(bundle)), marks(image))
    videos = MiniCPMVideo(_slicing(video_processor(bundle)), marks(video))
    return Family(
        name="MiniCPM-V 4.6",
        image=MediaRule(expand=images.expand, placeholder=image, target=image),
        video=MediaRule(expand=videos.expand, placeholder=video, target=video),
    )


def _pair(bundle: ModelBundle, name: str) -> tuple[str, str]:
    return (
        special_token(bundle, f"{name}_start_token", f"<{name}>"),
        special_token(bundle, f"{name}_end_token", f"</{name}>"),
    )


def _slicing(files: Values) -> Slicing:
    return Slicing(
        resolution=files.integer("scale_resolution", 448),
        patch=files.side("patch_size", 14),
        most=files.integer("max_slice_nums", 9),
        divisor=_DIVISORS.get(files.text("downsample_mode", "16x"), 16),
        slices=files.flag("slice_mode", True),
    )

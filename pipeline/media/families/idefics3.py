"""Idefics3, SmolVLM and SmolVLM2."""

from __future__ import annotations

import math
from collections.abc import Callable
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
from promptmill.pipeline.media.tokens import encoder, need_id, special_token
from promptmill.pipeline.media.values import image_processor, processor, row_values
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.media import Modality
from promptmill.schemas.request import Ids

LARGEST_SIDE = 4096
"""Pixels that no resized image exceeds; fixed in the processor's class."""


def resized(height: int, width: int, longest: int) -> tuple[int, int]:
    """Height and width of an image whose longer side becomes `longest`, up or down."""
    aspect = width / height
    if width >= height:
        width, height = longest, int(longest / aspect)
        height += height % 2
    else:
        height, width = longest, int(longest * aspect)
        width += width % 2
    height, width = max(height, 1), max(width, 1)
    aspect = width / height
    if width >= height and width > LARGEST_SIDE:
        width, height = LARGEST_SIDE, int(LARGEST_SIDE / aspect)
    elif height > width and height > LARGEST_SIDE:
        height, width = LARGEST_SIDE, int(LARGEST_SIDE * aspect)
    return max(height, 1), max(width, 1)


@dataclass(frozen=True, slots=True)
class Idefics3Image:
    """Tiles in rows and columns, then the whole image; as text, tokenized as a whole."""

    image: str
    image_id: int
    fake: str
    whole: str
    per_tile: int
    """Ids of one tile."""
    longest: int
    """Pixels of the longer side before the image is cut."""
    tile: int
    """Pixels along a side."""
    splits: bool
    encode: Callable[[str], Ids]

    def expand(self, info: ImageInfo, site: Site) -> Replacement:
        """Tiles by size."""
        asked = row_values(site.kwargs, Modality.IMAGE)
        longest = asked.child("size").integer("longest_edge", self.longest)
        tile = asked.child("max_image_size").integer("longest_edge", self.tile)
        rows = columns = 1
        if asked.flag("do_image_splitting", self.splits):
            height, width = resized(info.height, info.width, longest)
            rows, columns = math.ceil(height / tile), math.ceil(width / tile)
        return Replacement(self.encode(self._text(rows, columns)), self.image_id)

    def _text(self, rows: int, columns: int) -> str:
        pads = self.image * self.per_tile
        whole = f"{self.fake}{self.whole}{pads}{self.fake}"
        if rows * columns == 1:
            return whole
        lines = [
            "".join(f"{self.fake}<row_{r}_col_{c}>{pads}" for c in range(1, columns + 1))
            for r in range(1, rows + 1)
        ]
        return "\n".join([*lines, "", whole])


@register_family(
    "Idefics3ForConditionalGeneration", "SmolVLMForConditionalGeneration", "idefics3", "smolvlm"
)
def idefics3_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """Idefics3 and SmolVLM."""
    files = image_processor(bundle)
    token = special_token(bundle, "image_token", "<image>")
    images = Idefics3Image(
        token,
        need_id(codec, token),
        fake=special_token(bundle, "fake_image_token", "<fake_token_around_image>"),
        whole=special_token(bundle, "global_image_token", "<global-img>"),
        per_tile=processor(bundle).integer("image_seq_len", 169),
        longest=files.child("size").integer("longest_edge", 4 * 364),
        tile=files.child("max_image_size").integer("longest_edge", 364),
        splits=files.flag("do_image_splitting", True),
        encode=encoder(codec),
    )
    rule = MediaRule(expand=images.expand, placeholder=token, target=token)
    return Family(name="Idefics3", image=rule)

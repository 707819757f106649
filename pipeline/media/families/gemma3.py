"""Gemma 3, with pan and scan."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from promptmill.pipeline.media.base import (
    Family,
    ImageInfo,
    Join,
    Joins,
    MediaRule,
    Replacement,
    Site,
    TextCodec,
    register_family,
)
from promptmill.pipeline.media.tokens import encoder, need_id, special_token
from promptmill.pipeline.media.values import Values, processor, row_values
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.media import Modality
from promptmill.schemas.request import Ids


def crops(info: ImageInfo, asked: Values) -> int:
    """How many crops pan and scan adds to an image; 0 where it does nothing.

    The long side is divided into as many as its ratio says, rounded half up; at least 2, then at
    most the maximum.
    """
    smallest = asked.integer("pan_and_scan_min_crop_size", 256)
    longer, shorter = max(info.width, info.height), min(info.width, info.height)
    if longer / shorter < asked.number("pan_and_scan_min_ratio_to_activate", 1.2):
        return 0
    count = min(longer // smallest, math.floor(longer / shorter + 0.5))
    count = min(asked.integer("pan_and_scan_max_num_crops", 4), max(2, count))
    return 0 if min(math.ceil(longer / count), shorter) < smallest else count


@dataclass(frozen=True, slots=True)
class Gemma3Image:
    """An image is a fixed number of ids; crops are further images with text between them."""

    text: str
    """What one image becomes."""
    soft_id: int
    defaults: Values
    encode: Callable[[str], Ids]

    def expand(self, info: ImageInfo, site: Site) -> Replacement:
        """Blank lines around the image; text tells the crops."""
        asked = row_values(site.kwargs, Modality.IMAGE)
        asked = Values((*asked.layers, *self.defaults.layers), asked.origin, of_row=True)
        count = crops(info, asked) if asked.flag("do_pan_and_scan", False) else 0
        text = self.text
        if count:
            others = " ".join([self.text] * count)
            text = (
                f"Here is the original image {self.text} and here are some crops to help you see "
                f"better {others}"
            )
        return Replacement(self.encode(text), self.soft_id)


@register_family("Gemma3ForConditionalGeneration", "gemma3")
def gemma3_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """Gemma 3."""
    begin = special_token(bundle, "boi_token", "<start_of_image>")
    end = special_token(bundle, "eoi_token", "<end_of_image>")
    soft = special_token(bundle, "image_token", "<image_soft_token>")
    texts = processor(bundle)
    image = Gemma3Image(
        f"\n\n{begin}{soft * texts.integer('image_seq_length', 256)}{end}\n\n",
        need_id(codec, soft),
        texts,
        encoder(codec),
    )
    one, two, three, four = (need_id(codec, "\n" * count) for count in (1, 2, 3, 4))
    return Family(
        name="Gemma 3",
        image=MediaRule(expand=image.expand, placeholder=begin, target=begin),
        joins=Joins(
            (Join(one, two, three), Join(two, one, three), Join(two, two, four)), border=two
        ),
    )

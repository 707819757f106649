"""PaliGemma: the image goes in front of the prompt."""

from __future__ import annotations

from functools import partial

import numpy as np

from promptmill.pipeline.media.base import (
    Family,
    ImageInfo,
    MediaRule,
    Replacement,
    Site,
    TextCodec,
    register_family,
)
from promptmill.pipeline.media.tokens import need_id, repeated, special_token
from promptmill.pipeline.media.values import config_values
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.request import Ids


def _expand(content: Ids, image_id: int, info: ImageInfo, site: Site) -> Replacement:
    return Replacement(content, image_id)


@register_family("PaliGemmaForConditionalGeneration", "paligemma")
def paligemma_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """PaliGemma: image ids and a BOS of their own; the prompt ends in a newline."""
    vision = config_values(bundle, "vision_config")
    count = (vision.side("image_size", 224) // vision.side("patch_size", 14)) ** 2
    image_id = need_id(codec, special_token(bundle, "image_token", "<image>"))
    bos_id = need_id(codec, special_token(bundle, "bos_token", "<bos>"))
    content = np.concatenate([repeated(image_id, count), repeated(bos_id, 1)])
    return Family(
        name="PaliGemma",
        image=MediaRule(
            expand=partial(_expand, content, image_id), placeholder=None, target="", limit=1
        ),
        last_id=need_id(codec, "\n"),
    )

"""Pixtral and Mistral 3, in Hugging Face's and in Mistral's own format."""

from __future__ import annotations

import json
import math
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
    refused,
    register_family,
)
from promptmill.pipeline.media.tokens import need_id
from promptmill.pipeline.media.values import (
    Values,
    config_values,
    image_processor,
    processor,
    row_values,
)
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import JobError
from promptmill.schemas.media import Modality
from promptmill.schemas.request import Ids


@dataclass(frozen=True, slots=True)
class Rows:
    """Ids of an image: rows of image ids, each closed by a break, the last by an end."""

    image_id: int
    break_id: int
    end_id: int

    def ids(self, rows: int, columns: int) -> Ids:
        """Shape (rows * (columns + 1),)."""
        grid = np.full((rows, columns + 1), self.image_id, np.int32)
        grid[:, -1] = self.break_id
        grid[-1, -1] = self.end_id
        return grid.ravel()


@dataclass(frozen=True, slots=True)
class PixtralImage:
    """Images scaled down to fit a square, then cut into cells."""

    rows: Rows
    longest: int
    """Pixels of the longer side at most."""
    cell: int
    """Pixels along a side of what becomes one id."""
    fits: Callable[[float], int]
    """How a scaled side becomes whole pixels."""
    honours_size: bool = False
    """The row's `size` counts."""

    def expand(self, info: ImageInfo, site: Site) -> Replacement:
        """Rows of ids with breaks between them."""
        longest = self.longest
        if self.honours_size:
            size = row_values(site.kwargs, Modality.IMAGE).child("size")
            longest = size.integer("longest_edge", longest)
        rows, columns = self._cells(info.height, info.width, longest)
        return Replacement(self.rows.ids(rows, columns), self.rows.image_id, (1, rows, columns))

    def expand_upright(self, info: ImageInfo, site: Site) -> Replacement:
        """The same for mistral-common, which does not turn images as the server does.

        The server then looks for ids that are not there.
        """
        if info.rotated:
            stored = self._cells(info.width, info.height, self.longest)
            if stored != self._cells(info.height, info.width, self.longest):
                raise refused(
                    Modality.IMAGE,
                    "its EXIF orientation turns it, which this model's tokenizer ignores and the "
                    "server does not; store it upright",
                )
        return self.expand(info, site)

    def _cells(self, height: int, width: int, longest: int) -> tuple[int, int]:
        ratio = max(height / longest, width / longest)
        if ratio > 1:
            height, width = self.fits(height / ratio), self.fits(width / ratio)
        if not height or not width:
            raise refused(Modality.IMAGE, "scaled to fit, one of its sides has no pixel left")
        return (height - 1) // self.cell + 1, (width - 1) // self.cell + 1


def _at_least_one(side: float) -> int:
    """mistral-common's rounding: half to even, never to nothing."""
    return max(round(side), 1)


def pixtral_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """Pixtral in Hugging Face's format: sizes from config.json alone."""
    vision = config_values(bundle, "vision_config")
    images = PixtralImage(
        _hf_rows(bundle, codec),
        longest=vision.side("image_size"),
        cell=vision.side("patch_size"),
        fits=math.floor,
    )
    return _hf_family("Pixtral", bundle, images)


@register_family("Mistral3ForConditionalGeneration", "mistral3")
def mistral3_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """Mistral 3: several patches become one id."""
    if bundle.tokenizer_mode == "mistral":
        return mistral_family(bundle, codec)
    config, files = config_values(bundle), image_processor(bundle)
    patch = files.side("patch_size", config.child("vision_config").side("patch_size"))
    images = PixtralImage(
        _hf_rows(bundle, codec),
        longest=files.child("size").integer("longest_edge", 1024),
        cell=patch * config.integer("spatial_merge_size", 2),
        fits=math.floor,
        honours_size=True,
    )
    return _hf_family("Mistral 3", bundle, images)


@register_family("PixtralForConditionalGeneration", "pixtral")
def mistral_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """Both in Mistral's own format: settings and ids from the tokenizer file."""
    tekken = _tekken(bundle)
    settings = tekken.child("image")
    named = _special_ids(tekken)
    rows = Rows(named["[IMG]"], named["[IMG_BREAK]"], named["[IMG_END]"])
    images = PixtralImage(
        rows,
        longest=settings.integer("max_image_size"),
        cell=settings.integer("image_patch_size") * settings.integer("spatial_merge_size", 1),
        fits=_at_least_one,
    )
    rule = MediaRule(
        expand=images.expand_upright,
        placeholder=None,
        target="[IMG]",
        target_ids=(rows.image_id,),
    )
    return Family(name="Mistral", image=rule, plain_text=True)


def _hf_rows(bundle: ModelBundle, codec: TextCodec) -> Rows:
    texts = processor(bundle)
    return Rows(
        need_id(codec, texts.text("image_token", "[IMG]")),
        need_id(codec, texts.text("image_break_token", "[IMG_BREAK]")),
        need_id(codec, texts.text("image_end_token", "[IMG_END]")),
    )


def _hf_family(name: str, bundle: ModelBundle, images: PixtralImage) -> Family:
    target = processor(bundle).text("image_token", "[IMG]")
    return Family(name=name, image=MediaRule(expand=images.expand, placeholder=None, target=target))


def _tekken(bundle: ModelBundle) -> Values:
    """tekken.json, the only tokenizer file of Mistral's that describes images."""
    content = bundle.files.get("tekken.json")
    if content is None:
        raise JobError(
            f"{bundle.name}: in tokenizer mode mistral, images need a tekken.json. Add it, or use "
            "--tokenizer-mode hf."
        )
    return Values((json.loads(content),), "tekken.json")


def _special_ids(tekken: Values) -> dict[str, int]:
    """Ids of the image tokens: as listed, or as they were before files listed them."""
    named = {"[IMG]": 10, "[IMG_BREAK]": 12, "[IMG_END]": 13}
    listed = tekken.get("special_tokens")
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, dict) and isinstance(rank := entry.get("rank"), int):
            named[str(entry.get("token_str"))] = rank
    return named

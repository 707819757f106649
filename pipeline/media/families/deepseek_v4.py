"""DeepSeek V4 and V4.1 with vision."""

from __future__ import annotations

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
    register_family,
)
from promptmill.pipeline.media.tokens import need_id, repeated
from promptmill.pipeline.media.values import Values, config_values, row_values
from promptmill.pipeline.model.deepseek_tokens import IMAGE_ID
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.media import Modality
from promptmill.schemas.request import Ids

PLACEHOLDER = "<｜deepseek_image｜>"

START, PAD, IMAGE, NEWLINE, END = range(129257, 129262)
"""V4's ids beyond the vocabulary, fixed in the server."""

ALIGNMENT = 4
"""V4's images start at positions of this multiple, less one."""


@dataclass(frozen=True, slots=True)
class Cells:
    """How an image becomes rows and columns of cells, one id each. Pixels."""

    patch: int
    downsample: int
    """Patches along a side of a cell."""
    smallest: int
    """Area below which an image is scaled up."""
    widest: int | None
    """Width to height at most; what is beyond does not count."""
    most: int
    """Ids of an image."""

    @property
    def cell(self) -> int:
        """Pixels along a side of a cell."""
        return self.patch * self.downsample

    def scaled(self, info: ImageInfo) -> tuple[int, int]:
        """(width, height) within the bounds of ratio and area."""
        width, height = info.width, info.height
        if self.widest is not None:
            width = min(width, height * self.widest)
        if width * height < self.smallest:
            ratio = (self.smallest / (width * height)) ** 0.5
            width, height = int(width * ratio), int(height * ratio)
        return width, height

    def grid(self, width: float, height: float) -> tuple[int, int]:
        """(rows, columns) of cells that cover a picture."""
        rows, columns = (
            math.ceil(math.ceil(side / self.patch) / self.downsample) for side in (height, width)
        )
        return rows, columns

    def shrunk(self, width: int, height: int, budget: int, *, step: int) -> tuple[int, int]:
        """(rows, columns) of a picture scaled down as `shrunk_size` has it."""
        return self.grid(*self.shrunk_size(width, height, budget, step=step))

    def shrunk_size(self, width: int, height: int, budget: int, *, step: int) -> tuple[int, int]:
        """(width, height) of a picture scaled down to some `budget` ids.

        Args:
            width: of the picture.
            height: of the picture.
            budget: ids, start and end among them.
            step: rows come in multiples of it.
        """
        ratio = height / width
        columns = math.sqrt((budget - 2) / ratio + 0.25) - 0.5
        rows = columns * ratio
        if columns < 1:
            return self.cell, (budget - 2) // 2 // step * step * self.cell
        if rows < step:
            return ((budget - 2) // step - 1) * self.cell, step * self.cell
        scale = min(
            math.floor(columns) * self.cell / width,
            math.floor(rows) // step * step * self.cell / height,
        )
        return (
            math.floor(width * scale / self.patch) * self.patch,
            math.floor(height * scale / self.patch) * self.patch,
        )


def no_arguments(site: Site) -> None:
    """Refuse processor arguments: the server's processor takes none; raises RowError."""
    asked = row_values(site.kwargs, Modality.IMAGE)
    for layer in asked.layers:
        for name in layer:
            asked.fail(name, "left out; this model's processor takes no arguments")


@dataclass(frozen=True, slots=True)
class DeepseekV41Image:
    """The same id for start, cells, newlines and end."""

    cells: Cells
    image_id: int

    def expand(self, info: ImageInfo, site: Site) -> Replacement:
        """Ids by size; all of them carry embeddings."""
        no_arguments(site)
        width, height = self.cells.scaled(info)
        rows, columns = self.cells.grid(width, height)
        if v41_length(rows, columns) > self.cells.most:
            rows, columns = self.cells.shrunk(width, height, self.cells.most, step=1)
        count = v41_length(rows, columns)
        return Replacement(repeated(self.image_id, count), grid=(1, rows, columns))


def v41_length(rows: int, columns: int) -> int:
    """Ids of an image: its cells, a newline a row, start and end."""
    return rows * (columns + 1) + 2


@dataclass(frozen=True, slots=True)
class DeepseekV4Image:
    """Pairs of rows interleaved, behind as many pads as the position asks for."""

    cells: Cells

    def expand(self, info: ImageInfo, site: Site) -> Replacement:
        """Ids by size and by where they start."""
        no_arguments(site)
        width, height = self.cells.scaled(info)
        rows, columns = self.cells.grid(width, height)
        budget = most = self.cells.most - (ALIGNMENT - 1)
        while len(content := interleaved(rows, columns)) > most:
            rows, columns = self.cells.shrunk(width, height, budget, step=2)
            budget -= 1
        pads = repeated(PAD, ALIGNMENT - 1 - site.position % ALIGNMENT)
        return Replacement(np.concatenate([pads, content]), IMAGE, (1, rows, columns))


def interleaved(rows: int, columns: int) -> Ids:
    """Start, cells two rows at a time column by column, newlines last, pads to even, end."""
    pairs = -(-rows // 2)
    grid = np.full((2 * pairs, columns + 1), IMAGE, np.int32)
    grid[:, -1] = NEWLINE
    grid[rows:] = PAD
    cells = grid.reshape(pairs, 2, columns + 1).transpose(0, 2, 1).ravel()
    pads = repeated(PAD, pairs * (columns + 1) % 2 * 2)
    return np.concatenate([repeated(START, 1), cells, pads, repeated(END, 1)])


@register_family("DeepseekV41ForCausalLM", "deepseek_v41")
def deepseek_v41_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """DeepSeek V4.1."""
    config = config_values(bundle)
    image_id = config.integer("image_token_id", IMAGE_ID)
    if image_id != IMAGE_ID:  # the server takes no other
        config.fail("image_token_id", str(IMAGE_ID))
    images = DeepseekV41Image(_cells(config.child("vision_config"), "", 1024, 295_936), image_id)
    return _family("DeepSeek V4.1", images.expand, (image_id,))


@register_family("DeepseekV4ForConditionalGeneration")
def deepseek_v4_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """DeepSeek V4 with vision; the text model has no family."""
    images = DeepseekV4Image(_cells(config_values(bundle), "vision_", 384, 147_456))
    need_id(codec, PLACEHOLDER)
    return _family("DeepSeek V4", images.expand, None)


def _family(
    name: str,
    expand: Callable[[ImageInfo, Site], Replacement],
    target_ids: tuple[int, ...] | None,
) -> Family:
    rule = MediaRule(
        expand=expand, placeholder=PLACEHOLDER, target=PLACEHOLDER, target_ids=target_ids
    )
    return Family(name=name, image=rule)


def _cells(values: Values, prefix: str, most: int, smallest: int) -> Cells:
    """V4.1 nests its settings, V4 gives them a prefix and other names."""
    budget = "max_n_token" if prefix else "max_image_tokens"
    ratio = values.get(f"{prefix}max_wh_ratio")
    return Cells(
        patch=values.side(f"{prefix}patch_size", 14),
        downsample=values.integer(f"{prefix}downsample_ratio", 3),
        smallest=values.integer(f"{prefix}min_pixels", smallest),
        widest=None if ratio is None else values.integer(f"{prefix}max_wh_ratio"),
        most=values.integer(f"{prefix}{budget}", most),
    )

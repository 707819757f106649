"""Llama 4."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from promptmill.pipeline.media.base import (
    Family,
    ImageInfo,
    MediaRule,
    Replacement,
    Site,
    TextCodec,
    register_family,
)
from promptmill.pipeline.media.tokens import need_id
from promptmill.pipeline.media.values import config_values, image_processor, processor, row_values
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.media import Modality


def canvases(most: int) -> npt.NDArray[np.float32]:
    """(rows, columns) of at most `most` tiles, shape (n, 2), in the processor's order.

    By falling number of tiles; those of one ratio stand where the first of them does.
    """
    by_ratio: dict[float, list[tuple[int, int]]] = {}
    for count in range(most, 0, -1):
        for rows in (n for n in range(1, count + 1) if count % n == 0):
            pair = (rows, count // rows)
            by_ratio.setdefault(pair[0] / pair[1], []).append(pair)
    return np.array([pair for pairs in by_ratio.values() for pair in pairs], np.float32)


def best_fit(
    info: ImageInfo, tiles: npt.NDArray[np.float32], tile: int, *, largest: bool
) -> tuple[int, int]:
    """The (rows, columns) that an image is fitted into. In float32, as the server decides.

    The smallest enlargement, else the least reduction; of equal ones the smallest area.

    Args:
        info: the image.
        tiles: from `canvases`.
        tile: pixels along a side of a tile.
        largest: take the largest enlargement instead.
    """
    sizes = tiles * np.float32(tile)
    scales = np.minimum(sizes[:, 1] / np.float32(info.width), sizes[:, 0] / np.float32(info.height))
    enlarging = scales[scales >= 1]
    chosen = scales.max() if largest or not len(enlarging) else enlarging.min()
    equal = tiles[scales == chosen]
    rows, columns = equal[np.argmin(equal[:, 0] * equal[:, 1])]
    return int(rows), int(columns)


@dataclass(frozen=True, slots=True)
class Llama4Image:
    """Tiles with separators, then the whole image."""

    start: int
    image: int
    patch: int
    across: int
    """Between the tiles of a row."""
    down: int
    """After a row."""
    end: int
    tile: int
    """Pixels along a side."""
    per_tile: int
    """Ids of one tile."""
    tiles: npt.NDArray[np.float32]
    largest: bool

    def expand(self, info: ImageInfo, site: Site) -> Replacement:
        """Tiles by size."""
        asked = row_values(site.kwargs, Modality.IMAGE)
        largest = asked.flag("resize_to_max_canvas", self.largest)
        rows, columns = best_fit(info, self.tiles, self.tile, largest=largest)
        whole = [self.image, *[self.patch] * self.per_tile, self.end]
        tiled = self._row(columns) * rows if rows * columns > 1 else []
        return Replacement(np.array([self.start, *tiled, *whole], np.int32), self.patch)

    def _row(self, columns: int) -> list[int]:
        tile = [*[self.patch] * self.per_tile, self.across]
        return [*(tile * columns)[:-1], self.down]


@register_family("Llama4ForConditionalGeneration", "llama4")
def llama4_family(bundle: ModelBundle, codec: TextCodec) -> Family:
    """Llama 4."""
    vision, files = config_values(bundle, "vision_config"), image_processor(bundle)
    side = vision.side("image_size", 336) // vision.side("patch_size", 14)
    image = processor(bundle).text("fake_image_token", "<|image|>")
    images = Llama4Image(
        start=need_id(codec, "<|image_start|>"),
        image=need_id(codec, "<|image|>"),
        patch=need_id(codec, "<|patch|>"),
        across=need_id(codec, "<|tile_x_separator|>"),
        down=need_id(codec, "<|tile_y_separator|>"),
        end=need_id(codec, "<|image_end|>"),
        tile=files.child("size").integer("height", 336),
        per_tile=round(side * side * vision.number("pixel_shuffle_ratio", 0.5) ** 2),
        tiles=canvases(files.integer("max_patches", 16)),
        largest=files.flag("resize_to_max_canvas", False),
    )
    rule = MediaRule(expand=images.expand, placeholder="<|image|>", target=image)
    return Family(name="Llama 4", image=rule)

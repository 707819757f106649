"""Settings of processors that cut pictures into patches and merge them: Qwen's and GLM's."""

from __future__ import annotations

from dataclasses import dataclass, replace

from promptmill.pipeline.media.resize import AreaBounds
from promptmill.pipeline.media.values import Values


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchGrid:
    """How a picture becomes patches. Pixels; areas in pixels."""

    patch: int
    merge: int
    """Patches along a side that become one token."""
    temporal: int = 2
    """Frames in one patch."""
    bounds: AreaBounds
    pixel_names: bool = True
    """`min_pixels` and `max_pixels` are understood and beat `size`."""
    half_size: bool = False
    """A `size` with one edge keeps the other."""
    resizes: bool = True

    @property
    def factor(self) -> int:
        """Pixels along a side of one token."""
        return self.patch * self.merge

    def read(self, values: Values) -> PatchGrid:
        """These settings as the defaults under a model's file."""
        size = values.child("size")
        names = values if self.pixel_names else Values((), values.origin)
        smallest = size.integer("shortest_edge", self.bounds.smallest)
        largest = size.integer("longest_edge", self.bounds.largest)
        return replace(
            self,
            patch=values.side("patch_size", self.patch),
            merge=values.integer("merge_size", self.merge),
            temporal=values.integer("temporal_patch_size", self.temporal),
            bounds=AreaBounds(
                names.integer("min_pixels", smallest), names.integer("max_pixels", largest)
            ),
        )

    def asked(self, values: Values) -> PatchGrid:
        """The same under the arguments of a row.

        Raises:
            RowError: INVALID_REQUEST; an argument that the processor refuses.
        """
        size = values.get("size")
        if size is not None:
            if not isinstance(size, dict):
                values.fail("size", "an object")
            edges = ("shortest_edge", "longest_edge")
            if not self.half_size and any(edge not in size for edge in edges):
                values.fail("size", "an object with shortest_edge and longest_edge")
        read = self.read(values)
        return replace(read, resizes=values.flag("do_resize", self.resizes))

    def tokens(self, grid: tuple[int, int, int]) -> int:
        """Ids that a (t, h, w) grid of patches becomes."""
        t, h, w = grid
        return t * h * w // self.merge**2

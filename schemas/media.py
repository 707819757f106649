"""Media as the pipeline sees it: what a message carries, and the span it becomes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Modality(StrEnum):
    """As vLLM names them."""

    IMAGE = "image"
    AUDIO = "audio"
    VIDEO = "video"


@dataclass(frozen=True, slots=True)
class MediaItem:
    """One media item of a message, not yet read."""

    modality: Modality
    url: str | None = None
    """A data:, file:, http(s): URL or a path; None for raw bytes."""
    data: bytes | None = None
    """Raw bytes, from a binary column."""
    uuid: str | None = None
    detail: str | None = None
    """How closely an image is to be looked at, where the model's rule asks: low, high, ..."""


@dataclass(frozen=True, slots=True)
class MediaSpan:
    """Where an item lies in the stored ids."""

    modality: Modality
    offset: int
    """Index of its first id."""
    length: int
    """Number of ids, structure ids included."""
    index: int
    """0-based among the row's items of this modality."""
    hash: str
    """Content hash of the media, stable across runs."""
    grid: tuple[int, ...] | None = None
    """(t, h, w) patches or the family's own; None where the family has none."""
    embed_runs: tuple[tuple[int, int], ...] = ()
    """(offset, length) relative to the span: the ids that carry embeddings.

    () where all of them do, one run of length 0 where none does.
    """

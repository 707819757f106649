"""What a model family is: for each modality a placeholder, and what an item of it becomes.

A family is a `Family` value built from the model's own files by a function that
`register_family` knows. Nothing in it looks at pixels: a rule gets the facts a header tells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.media import Modality
from promptmill.schemas.request import Ids, Offsets

INDEX = "{i}"
"""In a placeholder: the item's number among the row's items of its modality, from 1."""


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """An image, as its header describes it. Pixels."""

    width: int
    """After EXIF orientation: what the rules use."""
    height: int
    rotated: bool = False
    """Orientation swaps the stored width and height."""
    format: str = field(default="", compare=False)
    """As Pillow names it."""


@dataclass(frozen=True, slots=True)
class AudioInfo:
    """A sound, as its header describes it."""

    samples: int
    """Per channel, at the native rate."""
    rate: int
    """Samples per second."""
    channels: int = 1


@dataclass(frozen=True, slots=True)
class VideoInfo:
    """A video, as its header describes it."""

    width: int
    height: int
    frames: int
    """Frames of the stream, before any sampling."""
    fps: float
    """0 where the file does not tell."""


MediaInfo: TypeAlias = ImageInfo | AudioInfo | VideoInfo
Info = TypeVar("Info", ImageInfo, AudioInfo, VideoInfo)


@dataclass(frozen=True, slots=True)
class MediaKwargs:
    """What the server or a row asks of the model's processor and of the media loader."""

    processor: JsonObject = field(default_factory=dict)
    """`mm_processor_kwargs`, the row's over the server's."""
    io: JsonObject = field(default_factory=dict)
    """`media_io_kwargs`: by modality."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where an item stands in its row."""

    index: int = 0
    """0-based among the row's items of its modality."""
    count: int = 1
    """Items of its modality in the row."""
    position: int = 0
    """Index in the expanded ids at which its replacement starts."""
    kwargs: MediaKwargs = field(default_factory=MediaKwargs)
    detail: str | None = None
    """How closely an image is to be looked at; None: nothing is said."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """What takes the place of one placeholder."""

    ids: Ids
    embed_id: int | None = None
    """The id whose positions carry embeddings; None: every position does."""
    grid: tuple[int, ...] | None = None
    """(t, h, w) patches where the family has a grid."""

    def embed_runs(self) -> tuple[tuple[int, int], ...]:
        """(offset, length) of each run of embedding positions.

        () where all positions are in it, one run of length 0 where none is.
        """
        if self.embed_id is None:
            return ()
        edges = np.diff(self.ids == self.embed_id, prepend=False, append=False)
        bounds = np.flatnonzero(edges).tolist()
        runs = tuple((a, b - a) for a, b in zip(bounds[::2], bounds[1::2], strict=True))
        return () if runs == ((0, len(self.ids)),) else runs or ((0, 0),)


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaRule(Generic[Info]):
    """One modality of a family."""

    expand: Callable[[Info, Site], Replacement]
    """Raises RowError where the model's processor would refuse the item."""
    placeholder: str | None
    """What the chat layer inserts for an item (`get_placeholder_str`); None: nothing."""
    target: str
    """The text that is replaced; "": the replacement goes before the whole prompt."""
    target_ids: tuple[int, ...] | None = None
    """Its ids; None: as the tokenizer encodes it."""
    limit: int | None = None
    """Items that the model takes in one prompt; None: any number."""


AnyRule: TypeAlias = MediaRule[ImageInfo] | MediaRule[AudioInfo] | MediaRule[VideoInfo]


@dataclass(frozen=True, slots=True)
class Join:
    """Two neighbouring ids that become one after expansion."""

    left: int
    right: int
    merged: int


@dataclass(frozen=True, slots=True)
class Joins:
    """How replacements grow together with what is beside them."""

    steps: tuple[Join, ...]
    """Applied one after the other to the whole prompt, each from left to right."""
    border: int
    """The id on both borders of every replacement."""


@dataclass(frozen=True, slots=True)
class FileLimits:
    """Bytes that the files of a row may have."""

    each: int
    together: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The media rules of one model."""

    name: str
    image: MediaRule[ImageInfo] | None = None
    audio: MediaRule[AudioInfo] | None = None
    video: MediaRule[VideoInfo] | None = None
    joins: Joins | None = None
    """Applied once all is expanded (Gemma 3)."""
    last_id: int | None = None
    """Appended to a prompt with media that does not end in it (PaliGemma)."""
    in_encoder: bool = False
    """Spans lie in the encoder's prompt, not in the stored ids (Whisper)."""
    file_limits: FileLimits | None = None
    """None: those of the server alone."""
    plain_text: bool = False
    """The tokenizer reads no control spellings in text: nobody can type a placeholder (Mistral)."""

    @property
    def rules(self) -> dict[Modality, AnyRule]:
        """The rules by modality, in the server's order."""
        found = {
            Modality.IMAGE: self.image,
            Modality.AUDIO: self.audio,
            Modality.VIDEO: self.video,
        }
        return {modality: rule for modality, rule in found.items() if rule is not None}

    def expand(self, info: MediaInfo, site: Site) -> Replacement:
        """What an item becomes at its place.

        Raises:
            RowError: the model's processor would refuse it.
        """
        match info:
            case ImageInfo() if self.image:
                return self.image.expand(info, site)
            case AudioInfo() if self.audio:
                return self.audio.expand(info, site)
            case VideoInfo() if self.video:
                return self.video.expand(info, site)
        raise TypeError(f"{self.name} has no rule for {type(info).__name__}")


class TextCodec(Protocol):
    """The model's tokenizer, as far as media needs it."""

    def encode(self, text: str) -> tuple[Ids, Offsets]:
        """Ids and code point spans; control spellings recognised, no special tokens added."""
        ...

    def decode(self, ids: Ids) -> str:
        """Text of ids, special tokens kept."""
        ...


def refused(modality: Modality, reason: str) -> RowError:
    """The error of an item that the model's processor does not take.

    Args:
        modality: of the item.
        reason: a clause with the values and the limit.
    """
    return RowError(
        ErrorCode.MEDIA_UNSUPPORTED,
        f"The model takes no such {modality}: {reason}. Change the file, or remove it.",
        parameter=modality.value,
        stage=Stage.EXPAND,
    )


def unreadable(modality: Modality, reason: str) -> RowError:
    """The error of a file that is not what it should be.

    Args:
        modality: of the item.
        reason: a clause without anything of the content.
    """
    return RowError(
        ErrorCode.MEDIA_UNREADABLE,
        f"The {modality} cannot be read: {reason}. Replace the file, or remove it from the row.",
        parameter=modality.value,
        stage=Stage.EXPAND,
    )


FamilyBuilder: TypeAlias = Callable[[ModelBundle, TextCodec], Family]

_builders: dict[str, FamilyBuilder] = {}


def register_family(*names: str) -> Callable[[FamilyBuilder], FamilyBuilder]:
    """Decorator: the function builds the family of these architectures or model types.

    Args:
        names: values of `architectures` or `model_type` in config.json. A later registration
            of the same name wins, so that users can replace a family.
    """

    def register(builder: FamilyBuilder) -> FamilyBuilder:
        _builders.update(dict.fromkeys(names, builder))
        return builder

    return register


def find_builder(config: JsonObject) -> FamilyBuilder | None:
    """The builder for a config.json: by architecture, then by model type."""
    architectures = config.get("architectures")
    names = [*architectures] if isinstance(architectures, list) else []
    for name in [*names, config.get("model_type")]:
        if isinstance(name, str) and name in _builders:
            return _builders[name]
    return None

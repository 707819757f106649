"""Typed values out of a model's JSON files and a row's keyword arguments.

A model that says nonsense cannot be used (JobError); a row that does is a reject (RowError).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Never

from promptmill.pipeline.media.base import MediaKwargs
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import ErrorCode, JobError, RowError
from promptmill.schemas.json_types import Json, JsonObject
from promptmill.schemas.media import Modality


@dataclass(frozen=True, slots=True)
class Values:
    """JSON objects laid over each other: the first that has a value for a key wins."""

    layers: tuple[JsonObject, ...]
    origin: str
    """Where they come from: for messages."""
    of_row: bool = False
    """From a row: wrong values make a reject, not a failed job."""

    def get(self, key: str) -> Json:
        """The value of a key; None where no layer has one."""
        for layer in self.layers:
            if layer.get(key) is not None:
                return layer[key]
        return None

    def integer(self, key: str, default: int | None = None) -> int:
        """A positive integer; `default` where there is none, and required without one.

        A row's null is a value, and a wrong one.
        """
        value = self.get(key)
        given = self.of_row and any(key in layer for layer in self.layers)
        if value is None and default is not None and not given:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            self.fail(key, "a positive integer")
        return value

    def side(self, key: str, default: int | None = None) -> int:
        """Pixels along a side: an integer, or an object or a pair of two equal ones."""
        value = self.get(key)
        if isinstance(value, dict):
            value = [value.get("height"), value.get("width")]
        if isinstance(value, list) and len(value) == 2 and value[0] == value[1]:
            return Values(({key: value[0]},), self.origin, self.of_row).integer(key, default)
        return self.integer(key, default)

    def number(self, key: str, default: float | None = None) -> float:
        """A positive number; `default` where there is none, and required without one."""
        value = self.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            self.fail(key, "a positive number")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """A boolean."""
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.fail(key, "true or false")
        return value

    def text(self, key: str, default: str) -> str:
        """A string."""
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, str):
            self.fail(key, "a string")
        return value

    def pairs(self, key: str) -> tuple[tuple[int, int], ...]:
        """A list of pairs of integers, required."""
        value = self.get(key)
        if not isinstance(value, list):
            self.fail(key, "a list of pairs")
        pairs = []
        for item in value:
            if not isinstance(item, list) or len(item) != 2:
                self.fail(key, "a list of pairs")
            a, b = item
            if not isinstance(a, int) or not isinstance(b, int):
                self.fail(key, "a list of pairs of integers")
            pairs.append((a, b))
        return tuple(pairs)

    def child(self, key: str) -> Values:
        """The objects under a key, laid over each other in the same order."""
        found = tuple(c for layer in self.layers if isinstance(c := layer.get(key), dict))
        return Values(found, f"{self.origin}: {key}", self.of_row)

    def fail(self, key: str, wanted: str) -> Never:
        """Refuse the value of a key."""
        message = f"{key} must be {wanted} ({self.origin})."
        if self.of_row:
            raise RowError(ErrorCode.INVALID_REQUEST, message, parameter="mm_processor_kwargs")
        raise JobError(f"The model cannot be used with media: {message} Give it there.")


_SCOPES = {
    Modality.IMAGE: "images_kwargs",
    Modality.AUDIO: "audio_kwargs",
    Modality.VIDEO: "videos_kwargs",
}


def row_values(kwargs: MediaKwargs, modality: Modality) -> Values:
    """The processor arguments that reach a modality: its own scope over the flat ones."""
    scoped = kwargs.processor.get(_SCOPES[modality])
    layers = (scoped, kwargs.processor) if isinstance(scoped, dict) else (kwargs.processor,)
    return Values(layers, "mm_processor_kwargs", of_row=True)


def loader_values(kwargs: MediaKwargs, modality: Modality) -> Values:
    """The loader's arguments for a modality."""
    own = kwargs.io.get(modality.value)
    return Values((own,) if isinstance(own, dict) else (), "media_io_kwargs", of_row=True)


def config_values(bundle: ModelBundle, *path: str) -> Values:
    """config.json, or an object in it."""
    values = Values((bundle.config,), "config.json")
    for key in path:
        values = values.child(key)
    return values


def processor_values(bundle: ModelBundle, part: str, files: Sequence[str]) -> Values:
    """The settings of one part of the processor.

    Args:
        bundle: the model.
        part: the key under which processor_config.json nests it, as newer models do.
        files: the files that hold it on their own, the first that is there wins.
    """
    nested = bundle.processor_configs.get("processor_config.json", {}).get(part)
    if isinstance(nested, dict):
        return Values((nested,), f"processor_config.json: {part}")
    for name in files:
        if name in bundle.processor_configs:
            return Values((bundle.processor_configs[name],), name)
    return Values((), files[0])


def image_processor(bundle: ModelBundle) -> Values:
    """The image processor's settings."""
    return processor_values(bundle, "image_processor", ["preprocessor_config.json"])


def video_processor(bundle: ModelBundle) -> Values:
    """The video processor's settings: its own file, else the image processor's."""
    files = ["video_preprocessor_config.json", "preprocessor_config.json"]
    return processor_values(bundle, "video_processor", files)


def feature_extractor(bundle: ModelBundle) -> Values:
    """The audio feature extractor's settings."""
    return processor_values(bundle, "feature_extractor", ["preprocessor_config.json"])


def processor(bundle: ModelBundle) -> Values:
    """The processor's own settings."""
    name = "processor_config.json"
    return Values((bundle.processor_configs.get(name, {}),), name)

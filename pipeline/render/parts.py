"""One part of a message's content: what it is and what it carries.

Profile rule (vLLM 0.33.0, `renderers/chat_utils/chat_message.py`): the types of parts, the keys
they carry their value under, and what is made of a part that does not name its type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import Json, JsonObject
from promptmill.schemas.media import MediaItem, Modality

_TEXT_KEYS: Final = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
}
"""Part types that are plain text, and the key of their text."""

_URL_PARTS: Final = {
    "image_url": Modality.IMAGE,
    "input_image": Modality.IMAGE,
    "audio_url": Modality.AUDIO,
    "video_url": Modality.VIDEO,
}

_EMBEDS: Final = ("image_embeds", "audio_embeds", "video_embeds", "prompt_embeds", "image_pil")
"""Part types that carry no media but what a model made of it: nothing to tokenize."""

_UNTYPED: Final = (
    "image_url",
    "image_pil",
    "image_embeds",
    "audio_embeds",
    "video_embeds",
    "prompt_embeds",
    "audio_url",
    "input_audio",
    "video_url",
    "tool_reference",
)
"""Keys by which a part without a type (or with a uuid) is recognised, in the server's order."""

_TYPES: Final = frozenset({*_TEXT_KEYS, *_URL_PARTS, *_EMBEDS, "input_audio", "tool_reference"})

_KNOWN_KEYS: Final = frozenset(
    {
        *_TYPES - {"input_text", "output_text", "input_image", "tool_reference"},
        "type",
        "uuid",
        "file",
        "data",
        "closed",
        "name",
    }
)
"""Keys that some part type defines; all others are handed through to the template."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text, as a template in either format may get it."""

    text: str | None
    extra: JsonObject
    """Keys that no part type knows, such as `cache_control`."""


@dataclass(frozen=True, slots=True)
class ToolReference:
    """The name of a tool, which some templates expand."""

    name: str | None


@dataclass(frozen=True, slots=True)
class MediaPart:
    """A media item and its part's unknown keys."""

    item: MediaItem
    extra: JsonObject


Part: TypeAlias = TextPart | ToolReference | MediaPart


def read_part(part: Json) -> Part | None:
    """What a part is; None for a text part without text, which is skipped.

    Raises:
        RowError: INVALID_REQUEST for a part of unknown type (`type`), UNSUPPORTED_REQUEST for
            embeddings.
    """
    if isinstance(part, str):
        return TextPart(part, {})
    if not isinstance(part, dict):
        raise _invalid("Missing 'type' field in multimodal part.")
    kind = _kind(part)
    extra = {key: value for key, value in part.items() if key not in _KNOWN_KEYS}
    if kind in _TEXT_KEYS:
        text = part.get(_TEXT_KEYS[kind])
        if text is None and kind in ("text", "refusal"):
            return None
        return TextPart(text if isinstance(text, str) else None, extra)
    if kind == "tool_reference":
        name = part.get("name")
        return ToolReference(name if isinstance(name, str) else None)
    if kind in _EMBEDS:
        raise RowError(
            ErrorCode.UNSUPPORTED_REQUEST,
            f"Content parts of type {kind!r} carry embeddings, which have no text. The server "
            "takes them only with --enable-mm-embeds or --enable-prompt-embeds; give the media.",
            parameter=kind,
        )
    return MediaPart(_media_item(kind, part), extra)


def _kind(part: JsonObject) -> str:
    kind, uuid = part.get("type"), part.get("uuid")
    if isinstance(kind, str) and kind in _TYPES and uuid is None:
        return kind
    if kind is None or uuid is not None:
        for key in _UNTYPED:
            if key in part:
                return key
        raise _invalid("Missing 'type' field in multimodal part.")
    if not isinstance(kind, str):
        raise _invalid("Invalid 'type' field in multimodal part.")
    raise RowError(
        ErrorCode.INVALID_REQUEST,
        f"Unsupported chat content part type: {kind!r}. "
        f"Supported types: {', '.join(sorted(_TYPES))}.",
        parameter="type",
        value=kind,
    )


def _media_item(kind: str, part: JsonObject) -> MediaItem:
    uuid = part.get("uuid")
    if kind == "input_audio":
        modality, url = Modality.AUDIO, _audio_url(part.get("input_audio"))
    else:
        modality = _URL_PARTS[kind]
        value = part.get("image_url" if kind == "input_image" else kind)
        value = value.get("url") if isinstance(value, dict) else value
        url = value if isinstance(value, str) else None
    return MediaItem(modality, url or None, uuid=None if uuid is None else str(uuid))


def _audio_url(audio: Json) -> str | None:
    """Inline audio as a data URL; None where only a uuid stands for it."""
    if not isinstance(audio, dict) or not audio.get("data"):
        return None
    return f"data:audio/{audio.get('format', '')};base64,{audio['data']}"


def _invalid(message: str) -> RowError:
    return RowError(ErrorCode.INVALID_REQUEST, message, parameter="type")

"""Prompt ids that a prefill stage forwards with a chat request. Profile rule."""

from __future__ import annotations

from typing import Final

from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import JsonObject

PROMPT_TOKEN_IDS: Final = "prompt_token_ids"
"""Their key in `kv_transfer_params`."""

_TEXT_TYPES: Final = frozenset(
    {"text", "input_text", "output_text", "refusal", "thinking", "tool_reference"}
)
_MEDIA_KEYS: Final = frozenset(
    {
        "image_url",
        "image_pil",
        "image_embeds",
        "input_image",
        "audio_url",
        "audio_embeds",
        "input_audio",
        "video_url",
        "video_embeds",
        "prompt_embeds",
    }
)
"""Keys that make a part a media part, whatever its type."""


def forwarded_ids(transfer: JsonObject, messages: list[JsonObject]) -> list[int] | None:
    """The ids to use in place of the messages; None where media must be rendered.

    Raises:
        RowError: INVALID_REQUEST where they are no non-empty list of ids >= 0.
    """
    if any(_has_media(message) for message in messages):
        return None
    value = transfer[PROMPT_TOKEN_IDS]
    ids = [i for i in value if type(i) is int and i >= 0] if isinstance(value, list) else []
    if not ids or not isinstance(value, list) or len(ids) != len(value):
        raise RowError(
            ErrorCode.INVALID_REQUEST,
            "kv_transfer_params.prompt_token_ids must be a non-empty list of non-negative "
            "integers.",
            parameter="kv_transfer_params.prompt_token_ids",
        )
    return ids


def _has_media(message: JsonObject) -> bool:
    content = message.get("content")
    if not isinstance(content, list):
        return False
    return any(isinstance(part, dict) and _is_media(part) for part in content)


def _is_media(part: JsonObject) -> bool:
    kind = part.get("type", "text")
    return not isinstance(kind, str) or kind not in _TEXT_TYPES or not _MEDIA_KEYS.isdisjoint(part)

"""The schemas that a chat message is held against. Profile rule.

Every role has a schema of the OpenAI API whose list content and tool calls are looked at only
after it was chosen; beside them one schema takes any role and looks at everything at once.
"""

from __future__ import annotations

from typing import Final

from promptmill.pipeline.parse.coerce import boolean, nullable
from promptmill.pipeline.parse.typed_dict import (
    Fit,
    Schema,
    accepted_by,
    best_of,
    items,
    literal,
    objects,
    optional,
    schema,
    text,
)
from promptmill.schemas.json_types import Json


def _url(**fields: Fit) -> Schema:
    return schema({"url": text}, **fields)


def _part(kind: str, /, **required: Fit) -> Schema:
    return schema(required | {"type": literal(kind)})


_TEXT: Final = _part("text", text=text)
_REFUSAL: Final = _part("refusal", refusal=text)
_IMAGE: Final = _part(
    "image_url", image_url=_url(detail=literal("auto", "low", "high", "original")).fit
)
_INPUT_AUDIO: Final = _part(
    "input_audio", input_audio=schema({"data": text, "format": literal("wav", "mp3")}).fit
)
_FILE: Final = _part("file", file=schema(file_data=text, file_id=text, filename=text).fit)

_ANY_PART: Final = (
    _TEXT,
    _IMAGE,
    _INPUT_AUDIO,
    _FILE,
    _part("audio_url", audio_url=_url().fit),
    _part("video_url", video_url=_url().fit),
    _REFUSAL,
    # An image object cannot come as JSON, null with a uuid can; it also fits any object that
    # has neither key.
    schema(image_pil=lambda value: 0 if value is None else None, uuid=optional(text)),
    schema(image_url=optional(text), uuid=optional(text)),
    schema(audio_url=optional(text)),
    schema(video_url=optional(text), uuid=optional(text)),
    schema(name=text, type=literal("tool_reference")),
    schema({"thinking": text, "type": literal("thinking")}, closed=accepted_by(boolean)),
)

PARTS: Final = {
    "developer": (_TEXT,),
    "system": (_TEXT,),
    "user": (_TEXT, _IMAGE, _INPUT_AUDIO, _FILE),
    "assistant": (_TEXT, _REFUSAL),
    "tool": (_TEXT,),
}
"""Role -> the parts that its own schema takes."""

FUNCTION_CALLED: Final = schema({"arguments": text, "name": text})
TOOL_CALL: Final = schema(
    {"id": text, "function": FUNCTION_CALLED.fit, "type": literal("function")}
)
CUSTOM_TOOL_CALL: Final = schema(
    {
        "id": text,
        "custom": schema({"input": text, "name": text}).fit,
        "type": literal("custom"),
    }
)

FUNCTION_DEFINED: Final = schema(
    {"name": text},
    description=text,
    parameters=objects,
    strict=accepted_by(nullable(boolean)),
)
DEVELOPER_TOOL: Final = schema({"function": FUNCTION_DEFINED.fit, "type": literal("function")})


def _unread_list(value: Json) -> int | None:
    """Anything to iterate over: looked at when it is iterated."""
    return 0 if isinstance(value, list | dict) else None


_CONTENT: Final = best_of(text, _unread_list)


def _role(name: str, required: dict[str, Fit], /, **fields: Fit) -> Schema:
    return schema(required | {"role": literal(name)}, **fields)


BY_ROLE: Final = {
    "developer": _role("developer", {"content": _CONTENT}, name=text),
    "system": _role("system", {"content": _CONTENT}, name=text),
    "user": _role("user", {"content": _CONTENT}, name=text),
    "assistant": _role(
        "assistant",
        {},
        audio=optional(schema({"id": text}).fit),
        content=optional(_CONTENT),
        function_call=optional(FUNCTION_CALLED.fit),
        name=text,
        refusal=optional(text),
        tool_calls=_unread_list,
    ),
    "tool": _role("tool", {"content": _CONTENT, "tool_call_id": text}),
    "function": _role("function", {"content": optional(text), "name": text}),
}
"""Role -> the schema of the OpenAI API."""

ANY_ROLE: Final = schema(
    {"role": text},
    content=best_of(text, items(best_of(text, *(part.fit for part in _ANY_PART)))),
    name=text,
    tool_call_id=optional(text),
    tool_calls=optional(items(TOOL_CALL.fit)),
    reasoning=optional(best_of(text, _part("prompt_embeds", data=text).fit)),
    tools=optional(items(DEVELOPER_TOOL.fit)),
    task=optional(text),
)
"""The schema for free-form roles, which also knows the fields that vLLM added."""

"""Chat messages, accepted or refused as the server's request model does, and rebuilt as it does.

What rebuilding is seen by templates: tool calls and a developer's tools come out in schema order.
The order of a message's own keys and of a part's keys is not seen (both are taken apart before
the template runs) and stays as it was. Profile rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeGuard

from promptmill.pipeline.parse.coerce import boolean
from promptmill.pipeline.parse.message_schemas import (
    ANY_ROLE,
    BY_ROLE,
    CUSTOM_TOOL_CALL,
    DEVELOPER_TOOL,
    FUNCTION_CALLED,
    FUNCTION_DEFINED,
    PARTS,
    TOOL_CALL,
)
from promptmill.pipeline.parse.typed_dict import Schema
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import Json, JsonObject

_PLAIN_KEYS: Final = frozenset({"role", "content", "name", "tool_call_id"})
_CALLER_KEYS: Final = frozenset({"role", "content", "tool_calls"})
_CALL_KEYS: Final = frozenset({"id", "type", "function"})
_FUNCTION_KEYS: Final = frozenset({"name", "arguments"})
_STRINGS: Final = frozenset({str})
_EMBEDS: Final = frozenset({"image_embeds", "audio_embeds", "video_embeds", "prompt_embeds"})
_ANTHROPIC: Final = frozenset({"tool_use", "tool_result", "server_tool_use", "redacted_thinking"})

_ACCEPTED: Final = {
    "content": "a string or a list of content parts (null only for assistant and function)",
    "tool_calls": "a list of calls: {id, type: 'function', function: {name, arguments}}, "
    "all strings, arguments as JSON text",
    "function_call": "an object with name and arguments, both strings, or null",
    "audio": "an object with a string id, or null",
    "refusal": "a string or null",
    "tool_call_id": "a string",
    "name": "a string",
    "role": "a string",
    "reasoning": "a string or null",
    "tools": "a list of function tools or null",
    "task": "a string or null",
}
"""What a field of a message accepts."""


def rebuild_messages(value: Json, *, normalise: bool = True) -> list[JsonObject]:
    """The messages of a chat body.

    Args:
        value: the body's `messages`.
        normalise: move `reasoning_content` to `reasoning` first, as chat completions do
            (embeddings do not).

    Raises:
        RowError: INVALID_REQUEST; UNSUPPORTED_REQUEST for what only other APIs or tensors have.
    """
    if not isinstance(value, list):
        raise RowError(
            ErrorCode.INVALID_REQUEST,
            "messages must be a list of messages.",
            parameter="messages",
        )
    return [
        message
        if _is_plain(message)
        else _plain_caller(message) or _rebuild(message, f"messages[{i}]", normalise)
        for i, message in enumerate(value)
    ]


def _is_plain(message: Json) -> TypeGuard[JsonObject]:
    """Whether it has nothing but strings that every role's message may have: most have."""
    if not isinstance(message, dict):
        return False
    if len(message) == 2 and type(message.get("content")) is str:
        return type(message.get("role")) is str
    return (
        "role" in message
        and message.keys() <= _PLAIN_KEYS
        and _STRINGS.issuperset(map(type, message.values()))
    )


def _plain_caller(message: Json) -> JsonObject | None:
    """What `_rebuild` makes of an assistant's text and complete calls, as agents have them by the
    dozen; None for anything else."""
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return None
    content, calls = message.get("content"), message.get("tool_calls")
    if type(calls) is not list or not message.keys() <= _CALLER_KEYS:
        return None
    ordered = [_plain_call(call) for call in calls]
    if None in ordered or not (content is None or type(content) is str):
        return None
    return {**message, "tool_calls": [*ordered]}


def _plain_call(call: Json) -> JsonObject | None:
    if not isinstance(call, dict) or call.keys() != _CALL_KEYS or call["type"] != "function":
        return None
    function = call["function"]
    if not isinstance(function, dict) or function.keys() != _FUNCTION_KEYS:
        return None
    arguments, name = function["arguments"], function["name"]
    if type(arguments) is str and type(name) is str and type(call["id"]) is str:
        called: JsonObject = {"arguments": arguments, "name": name}
        return {"id": call["id"], "function": called, "type": "function"}
    return None


def _rebuild(message: Json, where: str, normalise: bool) -> JsonObject:
    if not isinstance(message, dict):
        raise _refused(f"{where} must be an object with role and content.")
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str):
        raise _refused(f"{where}.role is required and must be a string.")
    if normalise:
        message = _normalised(message, where)
    _refuse_unsupported(message, where)
    own_schema = BY_ROLE.get(role)
    own = None if own_schema is None else own_schema.fit(message)
    free = ANY_ROLE.fit(message)
    if own is None and free is None:
        raise _explained(message, own_schema or ANY_ROLE, where)
    by_role = own is not None and (free is None or own >= free)
    if by_role and isinstance(content, list | dict):
        _check_parts(content, role, where)
        message = {**message, "content": list(content)}  # {} is as empty as []
    return _reordered(message, role, where, by_role=by_role, fits_any=free is not None)


def _normalised(message: JsonObject, where: str) -> JsonObject:
    """`reasoning_content` as `reasoning`, and tool calls as a list, as before validation."""
    calls = message.get("tool_calls")
    if "reasoning_content" in message:
        message = dict(message)
        reasoning = message.pop("reasoning_content")
        if reasoning is not None and message.get("reasoning") is None:
            message["reasoning"] = reasoning
    if isinstance(calls, str | dict):  # the server iterates over whatever it gets
        return {**message, "tool_calls": list(calls)}
    if calls is not None and not isinstance(calls, list):
        raise _refused(f"{where}.tool_calls must be {_ACCEPTED['tool_calls']}.")
    return message


def _refuse_unsupported(message: JsonObject, where: str) -> None:
    content, reasoning = message.get("content"), message.get("reasoning")
    parts = [*content] if isinstance(content, list) else []
    for part in (*parts, reasoning):
        if not isinstance(part, dict):
            continue
        kind = part.get("type")
        if kind is not None and not isinstance(kind, str):
            continue
        if kind == "image_pil" or (kind is None and "image_pil" in part):
            raise _unsupported(f"{where} holds an image object. Give the image as an image_url.")
        if kind in _EMBEDS or (kind is None and not _EMBEDS.isdisjoint(part)):
            raise _unsupported(
                f"{where} holds precomputed embeddings, which need the model's tensors. Give "
                "the media or the text itself."
            )
        if kind in _ANTHROPIC or (kind == "image" and isinstance(part.get("source"), dict)):
            raise _unsupported(
                f"{where} has a content part of the Anthropic Messages API. Convert the row to "
                "an OpenAI chat body (tool_calls, role tool, image_url)."
            )


def _check_parts(content: Iterable[Json], role: str, where: str) -> None:
    """Look at list content that the role's own schema took unread."""
    parts = PARTS[role]
    for j, part in enumerate(content):
        if not any(schema.fit(part) is not None for schema in parts):
            names = ", ".join(next(iter(schema.fields)) for schema in parts)
            raise _refused(
                f"{where}.content[{j}] is no complete content part of role {role}: an object "
                f"with type ({names}) and the field that type names, e.g. "
                '{"type": "text", "text": "..."}.'
            )


def _reordered(
    message: JsonObject, role: str, where: str, *, by_role: bool, fits_any: bool
) -> JsonObject:
    """The message with tool calls, or a developer's tools, in schema order.

    Args:
        message: an accepted message.
        role: its role.
        where: its place, for messages.
        by_role: whether the role's own schema was taken, which leaves calls unread and knows no
            tools.
        fits_any: whether it also fits the schema for any role, which reads both.
    """
    calls, tools = message.get("tool_calls"), message.get("tools")
    if role == "assistant" and isinstance(calls, list):
        if not fits_any:
            _check_calls(calls, where)
        return {**message, "tool_calls": [_call(call) for call in calls]}
    if role == "developer" and isinstance(tools, list) and not by_role:
        return {**message, "tools": [_developer_tool(tool) for tool in tools]}
    return message


def _check_calls(calls: list[Json], where: str) -> None:
    """Look at tool calls that the assistant's own schema took unread."""
    for j, call in enumerate(calls):
        if TOOL_CALL.fit(call) is None and CUSTOM_TOOL_CALL.fit(call) is None:
            raise _refused(
                f"{where}.tool_calls[{j}] must be {{id, type: 'function', function: {{name, "
                "arguments}}, all strings, arguments as JSON text."
            )


def _call(call: Json) -> Json:
    """A valid call in schema order; the calls of custom tools, which no template gets, as is."""
    if isinstance(call, dict) and call.get("type") == "function":
        return _with_ordered(call, TOOL_CALL, "function", FUNCTION_CALLED)
    return call


def _developer_tool(tool: Json) -> JsonObject:
    assert isinstance(tool, dict)
    ordered = _with_ordered(tool, DEVELOPER_TOOL, "function", FUNCTION_DEFINED)
    function = ordered["function"]
    assert isinstance(function, dict)
    if function.get("strict") is not None:
        function["strict"] = boolean(function["strict"])
    return ordered


def _with_ordered(value: JsonObject, outer: Schema, name: str, inner: Schema) -> JsonObject:
    ordered = outer.reordered(value)
    nested = value[name]
    assert isinstance(nested, dict)
    ordered[name] = inner.reordered(nested)
    return ordered


def _explained(message: JsonObject, schema: Schema, where: str) -> RowError:
    """Which field of a message that fits no schema is at fault."""
    name = schema.misfit(message) or ANY_ROLE.misfit(message) or "content"
    missing = "" if name in message else " is missing; it"
    return _refused(f"{where}.{name}{missing} must be {_ACCEPTED[name]}.")


def _refused(text: str) -> RowError:
    return RowError(ErrorCode.INVALID_REQUEST, text, parameter="messages")


def _unsupported(text: str) -> RowError:
    return RowError(ErrorCode.UNSUPPORTED_REQUEST, text, parameter="messages")

"""Tool calls of assistant messages as templates want them: arguments are objects.

Profile rule (vLLM 0.33.0, `_postprocess_messages` of `renderers/chat_utils/`): arguments come as
JSON text and leave as an object; what is no object becomes an empty one, because a broken call in
the history must not end the conversation.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Final

from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import Json, JsonObject

LARGEST_KEPT: Final = 4 << 10
"""Characters of arguments that are kept."""


def settle_tool_calls(place: str, message: JsonObject) -> list[str]:
    """Settle the `tool_calls` of a conversation message in place; an empty list is removed.

    Args:
        place: what warnings call the message.
        message: with a list of tool calls, which is replaced by copies.

    Returns:
        A warning for each call whose arguments were not an object.

    Raises:
        RowError: INVALID_REQUEST (`tool_calls`) for what is no call of a function.
    """
    calls = message["tool_calls"]
    assert isinstance(calls, list)
    if not calls:
        del message["tool_calls"]
        return []
    warnings: list[str] = []
    settled: list[Json] = []
    for index, call in enumerate(calls):
        fields, function = _call(call)
        arguments, problem = _arguments(function.get("arguments"))
        settled.append({**fields, "function": {**function, "arguments": arguments}})
        if problem:
            warnings.append(
                f"{place}.tool_calls[{index}]: arguments {problem}; rendered as an empty object"
            )
    message["tool_calls"] = settled
    return warnings


def _call(call: Json) -> tuple[JsonObject, JsonObject]:
    """The fields of a call, and those of its function."""
    if not isinstance(call, dict):
        raise _invalid("assistant tool_calls entries must be objects.")
    function = call.get("function")
    if call.get("type", "function") != "function" or not isinstance(function, dict):
        raise _invalid("chat completions only support assistant tool_calls of type 'function'.")
    return call, function


def _arguments(given: Json) -> tuple[JsonObject, str | None]:
    """The arguments as an object, and what was wrong with them."""
    if not given:
        return {}, None
    if isinstance(given, str):
        try:
            given = _loaded(given) if len(given) <= LARGEST_KEPT else json.loads(given)
        except json.JSONDecodeError:
            return {}, "are not valid JSON"
        except (ValueError, RecursionError) as error:
            raise _invalid(f"The arguments of a tool call cannot be read: {error}") from None
    if isinstance(given, dict):
        return given, None
    return {}, "are not a JSON object"


@lru_cache(maxsize=512)
def _loaded(text: str) -> Json:
    """The value of a JSON text. Rows of a session repeat their calls and share them: what a
    template has seen is only read."""
    value: Json = json.loads(text)
    return value


def _invalid(message: str) -> RowError:
    return RowError(ErrorCode.INVALID_REQUEST, message, parameter="tool_calls")

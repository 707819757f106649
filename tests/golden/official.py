"""Where the official DeepSeek library and the server's own port of it are known to differ.

Both write prompts of DeepSeek V4 and V4.1; ours are the library's. A case of the server that
differs is good only if its request has a feature of this table; a difference without one fails.
The numbers are rows of the table that compares the two.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from promptmill.pipeline.model.deepseek_tokens import IMAGE_SPELLINGS, SYSTEM, V4_SPELLINGS

Body = dict[str, Any]

SPELLINGS = (*V4_SPELLINGS, SYSTEM, *IMAGE_SPELLINGS)
TOOL_FIELDS = {"name", "description", "parameters", "strict"}


class Row(NamedTuple):
    """One known difference."""

    what: str
    applies: Callable[[Body], bool]
    """Whether a request has the feature."""


def explain(body: Body, reason: str) -> str | None:
    """The name of the first row that explains why a case differs.

    Args:
        body: the request.
        reason: the difference, as the script would print it.
    """
    for name, row in ROWS.items():
        if row.applies(body):
            return f"DeepSeek {name}"
    return f"DeepSeek {TYPES}" if "invalid request body" in reason else None


def messages(body: Body) -> list[Body]:
    found = body.get("messages")
    return [m for m in found if isinstance(m, dict)] if isinstance(found, list) else []


def last(body: Body) -> Body:
    return (messages(body) or [{}])[-1]


def roles(body: Body) -> list[str]:
    return [str(message.get("role")) for message in messages(body)]


def parts(body: Body) -> Iterator[Body]:
    for message in messages(body):
        content = message.get("content")
        if isinstance(content, list):
            yield from (part for part in content if isinstance(part, dict))


def functions(body: Body) -> list[Body]:
    return [tool.get("function") or {} for tool in body.get("tools") or []]


def arguments(body: Body) -> Iterator[Any]:
    for message in messages(body):
        for call in message.get("tool_calls") or []:
            yield (call.get("function") or {}).get("arguments")


def parsed_arguments(body: Body) -> Iterator[Any]:
    for text in arguments(body):
        try:
            yield json.loads(text) if isinstance(text, str) else text
        except ValueError:
            yield None


def numbers(value: Any) -> Iterator[int | float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def any_number(body: Body, is_odd: Callable[[int | float], bool]) -> bool:
    return any(is_odd(n) for value in parsed_arguments(body) for n in numbers(value))


def has_typed_spelling(body: Body) -> bool:
    text = json.dumps([messages(body), body.get("tools")], ensure_ascii=False)
    return any(spelling in text for spelling in SPELLINGS)


def has_image(body: Body) -> bool:
    return any("image" in str(part.get("type")) for part in parts(body))


def effort(body: Body) -> Any:
    kwargs = body.get("chat_template_kwargs") or {}
    return body.get("reasoning_effort") or kwargs.get("reasoning_effort")


def forces_tool(body: Body) -> bool:
    return body.get("tool_choice") == "required" or isinstance(body.get("tool_choice"), dict)


def tools_lack(body: Body) -> bool:
    return any("description" not in f or "parameters" not in f for f in functions(body))


def has_odd_arguments(body: Body) -> bool:
    odd = re.compile(r"NaN|Infinity|\de\d{3}")
    return any(not isinstance(value, dict) for value in parsed_arguments(body)) or any(
        isinstance(text, str) and odd.search(text) for text in arguments(body)
    )


def has_lone_surrogate(body: Body) -> bool:
    return any(re.search(r"\\ud[89a-f]", str(text), re.IGNORECASE) for text in arguments(body))


def has_consecutive_assistants(body: Body) -> bool:
    return ("assistant", "assistant") in pairwise(roles(body))


def results_fit(body: Body) -> bool:
    """Whether each tool result answers a call of the assistant message before it, and all do."""
    open_calls: set[Any] = set()
    for message in messages(body):
        if is_result(message):
            if message.get("tool_call_id") not in open_calls:
                return False
            open_calls.discard(message.get("tool_call_id"))
        elif open_calls:
            return False
        open_calls |= {call.get("id") for call in message.get("tool_calls") or []}
    return not open_calls


def is_result(message: Body) -> bool:
    return message.get("role") == "tool"


def is_null(message: Body) -> bool:
    return message.get("content") is None and not message.get("tool_calls")


ROWS = {
    "1 typed spelling": Row("a typed control spelling stays text", has_typed_spelling),
    "3, 4 image": Row("an image has another spelling (V4: words instead)", has_image),
    "6, 7 effort": Row(
        "medium means high and minimal means low", lambda b: effort(b) in ("medium", "minimal")
    ),
    "8 integer effort": Row("an integer effort is refused", lambda b: isinstance(effort(b), int)),
    "9 bare tool": Row("a tool without description or parameters gets empty ones", tools_lack),
    "10 strict tool": Row(
        "strict is not written", lambda b: any(f.get("strict") is not None for f in functions(b))
    ),
    "11 tool keys": Row(
        "tools keep three keys in one order",
        lambda b: any({*f} - TOOL_FIELDS for f in functions(b)),
    ),
    "12 no tool choice": Row(
        "tool_choice none leaves the tools out", lambda b: b.get("tool_choice") == "none"
    ),
    "13 forced tool": Row("a forced call is opened in the prompt, or refused", forces_tool),
    "14 response format": Row(
        "the prompt tells the format of the answer",
        lambda b: (b.get("response_format") or {}).get("type") not in (None, "text"),
    ),
    "15 odd arguments": Row("arguments that are no object are one raw text", has_odd_arguments),
    "16 empty arguments": Row(
        "an empty call has no blank line", lambda b: {} in parsed_arguments(b)
    ),
    "17 large integer": Row(
        "integers beyond 64 bits become floats",
        lambda b: any_number(b, lambda n: isinstance(n, int) and not -(2**63) <= n < 2**64),
    ),
    "18 negative zero": Row(
        "-0 is -0.0", lambda b: any(re.search(r"-0(?![.\d])", str(a)) for a in arguments(b))
    ),
    "18b small float": Row(
        "small floats are written in another way",
        lambda b: any_number(b, lambda n: isinstance(n, float) and 0 < math.fabs(n) < 1e-4),
    ),
    "19 lone surrogate": Row("such arguments are one raw text", has_lone_surrogate),
    "20 late system": Row(
        "system messages are hoisted and joined", lambda b: "system" in roles(b)[1:]
    ),
    "21 system, then assistant": Row(
        "a header follows", lambda b: roles(b)[:2] in (["system"], ["system", "assistant"])
    ),
    "22 consecutive assistants": Row("each has a header of its own", has_consecutive_assistants),
    "24 continued": Row(
        "a continued message has no end token",
        lambda b: bool(b.get("continue_final_message") or last(b).get("prefix")),
    ),
    "23 assistant last": Row("a new header follows", lambda b: roles(b)[-1:] == ["assistant"]),
    "25 results without tools": Row(
        "results count as the last user turn", lambda b: "tool" in roles(b) and not b.get("tools")
    ),
    "26 result in parts": Row(
        "parts are joined by a blank line",
        lambda b: any(is_result(m) and isinstance(m.get("content"), list) for m in messages(b)),
    ),
    "27 developer": Row("there is no such role", lambda b: "developer" in roles(b)),
    "28 reminder": Row("it stands before the header", lambda b: "latest_reminder" in roles(b)),
    "29 orphan result": Row("calls and results must fit", lambda b: not results_fit(b)),
    "30 empty tool_calls": Row(
        "it is refused", lambda b: any(m.get("tool_calls") == [] for m in messages(b))
    ),
    "31 null content": Row("it is refused", lambda b: any(map(is_null, messages(b)))),
    "T1b output budget": Row(
        "only max_tokens is read, and never lowered",
        lambda b: any(b.get(n) is not None for n in ("max_tokens", "max_completion_tokens")),
    ),
    "T1c ranges": Row(
        "n is 1, temperature 0 to 2, and there are messages",
        lambda b: (
            b.get("n") not in (None, 1)
            or not 0 <= (b.get("temperature") or 0) <= 2
            or b.get("messages") == []
        ),
    ),
}
"""By name: the first that applies explains a difference."""

TYPES = "T1c types"
DIFFERENCES = {f"DeepSeek {name}": row.what for name, row in ROWS.items()} | {
    f"DeepSeek {TYPES}": "a field has a type that the library does not take"
}

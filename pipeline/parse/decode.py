"""A JSONL line to a JSON value.

msgspec decodes; what it refuses and the server accepts (NaN, Infinity, 1e400, a BOM) goes through
`json`, as the server's body does. Duplicate keys: the last wins in both.
"""

from __future__ import annotations

import json
import re
from typing import Final

import msgspec
import numpy as np

from promptmill.pipeline.parse.sharing import ToolSharing
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import Json, JsonObject

MAX_NESTING: Final = 500
"""Levels of objects and arrays a row may have.

A fixed bound well under Python's recursion limit, so that the answer does not depend on how deep
the caller's own stack is."""

LONG_LINE: Final = 1 << 17
"""Bytes from which a line is looked at value by value before its brackets are counted."""

_BRACE: Final = np.uint8(ord("{"))
_BIT: Final = np.uint8(ord("{") ^ ord("["))
"""All that tells one bracket from the other."""

_lines = ToolSharing()
_SURROGATE = re.compile("[\ud800-\udfff]")


def decode_line(line: bytes) -> Json:
    """The value of one line.

    Raises:
        RowError: `invalid_json`, `invalid_utf8`, `lone_surrogate` or `nesting_too_deep`.
    """
    try:
        value = _lines.decode(line)
    except (msgspec.MsgspecError, RecursionError):
        return decode_text(_utf8(line))
    # msgspec refuses lone surrogates itself.
    if len(line) > 2 * MAX_NESTING and _may_be_deep(line, value):
        check_tree(value)
    return value


def _may_be_deep(line: bytes, value: Json) -> bool:
    """A cheap look that few rows do not pass: enough brackets, or where lines are long few values.

    Lines are long because of images: counting in them costs more than decoding them.
    """
    if len(line) > LONG_LINE and _has_few_values(value):
        return False
    brackets = np.frombuffer(line, np.uint8) | _BIT == _BRACE
    return bool(np.count_nonzero(brackets) > MAX_NESTING)


def _has_few_values(value: Json) -> bool:
    """Whether a value holds too few others to be nested too deep."""
    found, open_nodes = 0, [value]
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, dict | list):
            found += len(node)
            if found >= MAX_NESTING:
                return False
            open_nodes.extend(node.values() if isinstance(node, dict) else node)
    return True


def decode_text(text: str) -> Json:
    """The value of a JSON text, as the standard library reads it.

    Raises:
        RowError: `invalid_json`, `lone_surrogate` or `nesting_too_deep`.
    """
    try:
        value: Json = json.loads(text)
    except json.JSONDecodeError as error:
        raise _invalid(f"{error.msg.removesuffix(' at')} at character {error.pos}") from error
    except RecursionError as error:
        raise nesting_too_deep() from error
    except ValueError as error:  # an integer with more digits than Python converts
        raise _invalid("a number has too many digits") from error
    check_tree(value)
    return value


def readable_part(line: bytes) -> JsonObject:
    """The top-level strings and numbers of an object that was refused for a lone surrogate."""
    value = json.loads(line.decode("utf-8-sig"))
    if not isinstance(value, dict):
        return {}
    return {
        key: item
        for key, item in value.items()
        if isinstance(item, str | int) and not _has_surrogate(f"{key}{item}")
    }


def check_tree(value: Json) -> None:
    """Refuse what later steps cannot carry: absurd nesting and lone surrogates.

    Raises:
        RowError: `nesting_too_deep`, or `lone_surrogate` with the path of the string.
    """
    level = [value]
    depth = 0
    lone = isinstance(value, str) and _has_surrogate(value)
    while level := [node for node in level if isinstance(node, dict | list)]:
        depth += 1
        if depth > MAX_NESTING:
            raise nesting_too_deep()
        children: list[Json] = []
        for node in level:
            if isinstance(node, dict):
                children.extend(node)
                children.extend(node.values())
            elif isinstance(node, list):
                children.extend(node)
        lone = lone or any(isinstance(c, str) and _has_surrogate(c) for c in children)
        level = children
    if lone:
        raise RowError(
            ErrorCode.LONE_SURROGATE,
            f"The string at {_surrogate_path(value)} holds half of a surrogate pair (a \\ud800 to "
            "\\udfff escape without its other half). That is no text and no tokenizer takes it; "
            "repair the escape.",
        )


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and _SURROGATE.search(text) is not None


def _surrogate_path(value: Json) -> str:
    """Where the first lone surrogate is. Keys that are not plain names are not repeated."""
    stack: list[tuple[str, Json]] = [("$", value)]
    while stack:
        path, node = stack.pop()
        if isinstance(node, str) and _has_surrogate(node):
            return path
        if isinstance(node, dict):
            if any(map(_has_surrogate, node)):
                return f"a key of {path}"
            stack.extend((f"{path}.{_plain(key)}", item) for key, item in reversed(node.items()))
        elif isinstance(node, list):
            stack.extend((f"{path}[{i}]", node[i]) for i in range(len(node) - 1, -1, -1))
    return "$"


def _plain(key: str) -> str:
    return key if key.isascii() and key.isidentifier() else "?"


def _utf8(line: bytes) -> str:
    try:
        return line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RowError(
            ErrorCode.INVALID_UTF8,
            f"The line is not UTF-8: {error.reason} at byte {error.start} of {len(line)}. "
            "Convert the file to UTF-8.",
        ) from error


def _invalid(reason: str) -> RowError:
    return RowError(ErrorCode.INVALID_JSON, f"This is not JSON: {reason}.")


def nesting_too_deep() -> RowError:
    """The refusal of a row that is nested too deep to be handled."""
    return RowError(
        ErrorCode.NESTING_TOO_DEEP,
        f"Objects and arrays are nested more than {MAX_NESTING} levels deep. Flatten the row.",
    )

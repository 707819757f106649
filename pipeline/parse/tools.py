"""Tools of a chat body, as the server dumps them for the template. Profile rule.

Nulls are explicit (`description`, `parameters`), `strict` and `defer_loading` appear only when
given, unknown keys are gone: templates print tools with `tojson`, so this is prompt text.
"""

from __future__ import annotations

import marshal
from functools import lru_cache
from typing import Final

from promptmill.pipeline.identity import ByIdentity
from promptmill.pipeline.parse.coerce import Check, Mismatch, boolean, mapping, string
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import MARSHAL_VERSION, Json, JsonObject

LARGEST_KEPT: Final = 256 << 10
"""Bytes of a tools list whose rebuilt form is kept."""
LATEST_KEPT: Final = 16
"""Lists that are known by their identity."""

_FUNCTION: Final[dict[str, Check]] = {
    "description": string,
    "parameters": mapping,
    "strict": boolean,
    "defer_loading": boolean,
}
"""What the fields of a function beside its name accept where they are not null."""


def rebuild_tools(value: Json) -> list[JsonObject] | None:
    """The `tools` of a chat body; None for null.

    Raises:
        RowError: INVALID_REQUEST, also for an empty list.
    """
    if value is None:
        return None
    if not isinstance(value, list):
        raise _refused("tools must be a list of tools or null.")
    if not value:
        raise _refused("tools must not be an empty list: give at least one tool, or leave it out.")
    if (known := _latest.get(value)) is not None:
        return [*known]
    key = marshal.dumps(value, MARSHAL_VERSION)
    return [*_latest.keep(value, _kept(key))] if len(key) <= LARGEST_KEPT else _rebuilt(value)


_latest: Final = ByIdentity[list[JsonObject]](LATEST_KEPT)
"""What the latest lists became: lines that repeat their tools share them decoded (`sharing.py`)."""


@lru_cache(maxsize=64)
def _kept(key: bytes) -> list[JsonObject]:
    """The tools in a marshalled list: rows that share their tools share the rebuilt ones."""
    return _rebuilt(marshal.loads(key))


def _rebuilt(tools: list[Json]) -> list[JsonObject]:
    return [_rebuild(tool, i) for i, tool in enumerate(tools)]


def _rebuild(tool: Json, index: int) -> JsonObject:
    if not isinstance(tool, dict) or tool.get("type", "function") != "function":
        raise _refused(f"tools[{index}] must be an object of type 'function'.")
    function = tool.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise _refused(f"tools[{index}].function must be an object with a name, a string.")
    fields: JsonObject = {"name": function["name"], "description": None, "parameters": None}
    for name, check in _FUNCTION.items():
        value = function.get(name)
        if value is not None:
            fields[name] = _checked(check, value, f"tools[{index}].function.{name}")
    rebuilt: JsonObject = {"type": "function", "function": fields}
    deferred = tool.get("defer_loading")
    if deferred is not None:
        rebuilt["defer_loading"] = _checked(boolean, deferred, f"tools[{index}].defer_loading")
        fields.setdefault("defer_loading", rebuilt["defer_loading"])
    return rebuilt


def _checked(check: Check, value: Json, where: str) -> Json:
    try:
        return check(value)
    except Mismatch as mismatch:
        raise _refused(f"{where} must be {mismatch} or null.") from mismatch


def _refused(text: str) -> RowError:
    return RowError(ErrorCode.INVALID_REQUEST, text, parameter="tools")

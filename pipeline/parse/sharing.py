"""Rows of agent sessions carry the same tools, often most of the line: these are decoded once.

Rows share the decoded tools, which nobody changes.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

from promptmill.schemas.json_types import Json, JsonObject

WORTH_IT: Final = range(8 << 10, 1 << 20)
"""Bytes of a line: a shorter one is quickly decoded, in a longer one tools are the least."""
KEPT: Final = 8
"""Lists of tools that are remembered."""
LARGEST_KEPT: Final = 256 << 10
"""Bytes of one."""

_SHARED_IN: Final = frozenset({"tools", "body"})
_SEPARATORS: Final = ((b", ", b": "), (b",", b":"))
"""How JSON is written: by Python's default, and without spaces."""

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode = msgspec.json.Decoder().decode
_known: deque[tuple[bytes, Json]] = deque(maxlen=KEPT)


def decode_sharing(line: bytes) -> JsonObject | None:
    """The object of a line, with tools that other lines may have, too.

    None where that is not worth it, or where a field might have been dropped without being looked
    at (of two with one name the last counts).

    Raises:
        msgspec.MsgspecError, RecursionError: the line is not JSON as msgspec takes it.
    """
    if len(line) not in WORTH_IT:
        return None
    fields = _fields(line)
    if fields.keys().isdisjoint(_SHARED_IN) or not _is_all(fields, line):
        return None
    made: JsonObject = {}
    for name, raw in fields.items():
        if name == "tools":
            made[name] = _tools(bytes(raw))
        elif name == "body" and (body := decode_sharing(bytes(raw))) is not None:
            made[name] = body
        else:
            made[name] = _decode(raw)
    return made


def _is_all(fields: dict[str, msgspec.Raw], line: bytes) -> bool:
    """Whether a line is nothing but these fields."""
    names = [msgspec.json.encode(name) for name in fields]
    return any(
        b"{%b}" % comma.join(b"%b%b%b" % (name, colon, raw) for name, raw in pairs) == line
        for comma, colon in _SEPARATORS
        for pairs in [zip(names, fields.values(), strict=True)]
    )


def _tools(raw: bytes) -> Json:
    for known, decoded in tuple(_known):  # another thread may add one
        if known == raw:
            return decoded
    value: Json = _decode(raw)
    if len(raw) <= LARGEST_KEPT:
        _known.appendleft((raw, value))
    return value

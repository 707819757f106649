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

_SEPARATORS: Final = ((b", ", b": "), (b",", b":"))
"""How JSON is written: by Python's default, and without spaces."""

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode = msgspec.json.Decoder().decode


class ToolSharing:
    """Decodes lines; those that carry the same tools share them.

    Looked for only behind a line that had some: sessions come in runs, and the look costs a line
    without tools a third of its decoding.
    """

    def __init__(self) -> None:
        self._known: deque[tuple[bytes, Json]] = deque(maxlen=KEPT)
        self._expects = False

    def decode(self, line: bytes) -> Json:
        """The value of a line.

        Raises:
            msgspec.MsgspecError, RecursionError: the line is not JSON as msgspec takes it.
        """
        if len(line) not in WORTH_IT:
            value: Json = _decode(line)
            return value
        shared = self._shared(line) if self._expects else None
        value = _decode(line) if shared is None else shared
        self._expects = isinstance(value, dict) and _has_tools(value)
        return value

    def _shared(self, line: bytes) -> JsonObject | None:
        """None where a field might have been dropped without being looked at: of two with one
        name the last counts."""
        fields = _fields(line)
        if not _is_all(fields, line):
            return None
        made: JsonObject = {}
        for name, raw in fields.items():
            if name == "tools":
                made[name] = self._tools(bytes(raw))
            elif name == "body":
                made[name] = self._body(bytes(raw))
            else:
                made[name] = _decode(raw)
        return made

    def _body(self, raw: bytes) -> Json:
        shared = self._shared(raw) if raw.startswith(b"{") else None
        body: Json = _decode(raw) if shared is None else shared
        return body

    def _tools(self, raw: bytes) -> Json:
        for known, decoded in tuple(self._known):  # another thread may add one
            if known == raw:
                return decoded
        value: Json = _decode(raw)
        if len(raw) <= LARGEST_KEPT:
            self._known.appendleft((raw, value))
        return value


def _has_tools(value: JsonObject) -> bool:
    body = value.get("body")
    return "tools" in value or (isinstance(body, dict) and "tools" in body)


def _is_all(fields: dict[str, msgspec.Raw], line: bytes) -> bool:
    """Whether a line is nothing but these fields."""
    pairs = [(msgspec.json.encode(name), raw) for name, raw in fields.items()]
    return any(
        b"{%b}" % comma.join(b"%b%b%b" % (name, colon, raw) for name, raw in pairs) == line
        for comma, colon in _SEPARATORS
    )

"""The `tojson` filter of chat templates, with a memory: rows of a session share their tools."""

from __future__ import annotations

import json
import marshal
from functools import lru_cache
from typing import Final

from promptmill.pipeline.identity import ByIdentity
from promptmill.schemas.json_types import MARSHAL_VERSION

LARGEST_KEPT: Final = 16 << 10
"""Bytes of a value whose JSON is kept."""
LATEST_WRITTEN: Final = 256
"""Values that are known by their identity."""


def to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """The `tojson` filter: `json.dumps`, other scripts kept, nothing escaped for HTML."""
    if not (ensure_ascii or indent or separators or sort_keys) and type(value) is dict:
        if (known := _WRITTEN.get(value)) is not None:
            return known
        try:
            key = marshal.dumps(value, MARSHAL_VERSION)
        except ValueError:  # it holds what JSON has not, such as an undefined value
            pass
        else:
            if len(key) <= LARGEST_KEPT:
                return _WRITTEN.keep(value, _plain_json(key))
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


_WRITTEN: Final = ByIdentity[str](LATEST_WRITTEN)
"""JSON of the latest values: the tools that rows share are the same objects.

Nothing changes a value that a template has seen: the sandbox is immutable, and what rows share is
only read.
"""


@lru_cache(maxsize=1024)
def _plain_json(key: bytes) -> str:
    """The JSON of a marshalled value: rows that share their tools write them once."""
    return json.dumps(marshal.loads(key), ensure_ascii=False)

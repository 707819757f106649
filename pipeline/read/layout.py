"""What the ending of a file name says about its content."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final, NamedTuple

from promptmill.schemas.shard import InputCompression, InputKind


class Layout(NamedTuple):
    """How a file is to be read."""

    kind: InputKind
    compression: InputCompression


_KINDS: Final = {
    ".jsonl": InputKind.JSONL,
    ".ndjson": InputKind.JSONL,
    ".json": InputKind.JSONL,
    ".parquet": InputKind.PARQUET,
    ".arrow": InputKind.ARROW,
    ".arrows": InputKind.ARROW,
    ".ipc": InputKind.ARROW,
    ".feather": InputKind.ARROW,
}
_COMPRESSIONS: Final = {".gz": InputCompression.GZIP, ".zst": InputCompression.ZSTD}

ENDINGS: Final = (
    ".jsonl, .ndjson or .json (one JSON object per line), each also with .gz or .zst; "
    ".parquet; .arrow, .arrows, .ipc or .feather (Arrow IPC)"
)
"""What can be read, for messages."""


def layout_of(name: str) -> Layout | None:
    """The layout that a file's name promises; None: not an ending that is read.

    Example: `"a.jsonl.gz"` is JSONL compressed with gzip. Case does not matter.
    """
    *_, first, last = ("", "", *PurePosixPath(name.lower()).suffixes)
    if last in _KINDS:
        return Layout(_KINDS[last], InputCompression.NONE)
    if last in _COMPRESSIONS and _KINDS.get(first) is InputKind.JSONL:
        return Layout(InputKind.JSONL, _COMPRESSIONS[last])
    return None

"""A part as pyarrow reads it, wherever it lies."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from promptmill.pipeline.storage.place import Place


def arrow_source(part: Place) -> pa.NativeFile:
    """Open a part for random access; Arrow files of this machine without copying them.

    Raises:
        OSError: it cannot be opened.
    """
    if not isinstance(part, Path):
        return pa.PythonFile(part.open("rb"), mode="r")
    return pa.memory_map(str(part)) if part.suffix == ".arrow" else pa.OSFile(str(part))

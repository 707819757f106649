"""Token rows as Megatron's indexed data set: `PREFIX.bin` with the ids, `PREFIX.idx` with where.

The index, little endian: magic `MMIDIDX\\0\\0`, version (u64, 1), code of the id type (u8, 4 is
int32), sequences (u64), entries of the document list (u64); then the sizes in ids (i32 each), the
byte offsets into the ids (i64 each) and the document list: the first sequence of every document,
and the end (i64 each). Here every row is a sequence and a document.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np

from promptmill.schemas.request import Ids

MAGIC: Final = b"MMIDIDX\x00\x00"
VERSION: Final = 1
INT32: Final = 4
"""Code of the id type: what every vocabulary fits."""
_HEADER: Final = struct.Struct("<9sQBQQ")


def write_indexed(ids_path: Path, index_path: Path, rows: Iterable[Ids], count: int) -> int:
    """Write both files, row by row; nothing is held but a row.

    Args:
        ids_path: a new file for the ids.
        index_path: a new file for the index.
        rows: the ids of each row.
        count: how many rows there are: places in the index depend on it.

    Returns:
        Ids written.

    Raises:
        ValueError: there are more or fewer rows.
    """
    with ExitStack() as files:
        ids_file = files.enter_context(ids_path.open("xb"))
        index_path.write_bytes(_HEADER.pack(MAGIC, VERSION, INT32, count, count + 1))
        starts = (0, 4 * count, 12 * count)  # sizes, offsets, documents; each a file of its own
        sizes, offsets, documents = (files.enter_context(index_path.open("r+b")) for _ in starts)
        for file, start in zip((sizes, offsets, documents), starts, strict=True):
            file.seek(_HEADER.size + start)
        written = position = 0
        for number, ids in enumerate(rows):
            if number == count:
                raise ValueError(f"more rows than {count}")
            ids_file.write(np.ascontiguousarray(ids, "<i4").data)
            sizes.write(struct.pack("<i", len(ids)))
            offsets.write(struct.pack("<q", position))
            documents.write(struct.pack("<q", number))
            position += 4 * len(ids)
            written = number + 1
        if written != count:
            raise ValueError(f"{written} rows instead of {count}")
        documents.write(struct.pack("<q", count))
    return position // 4

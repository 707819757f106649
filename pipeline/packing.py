"""Which rows share a packed sequence: best-fit decreasing.

The longest row comes first; each goes to the fullest sequence that still has room for it, a new
one where none has. No more sequences come of it than 11/9 of the fewest possible and 4 (Johnson,
1974), and any two of them hold more than one sequence could.
"""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np
import numpy.typing as npt

Lengths = npt.NDArray[np.int64]
"""Ids of each row, shape (rows,)."""


def best_fit_decreasing(lengths: Lengths, size: int) -> list[list[int]]:
    """Rows, by their positions in `lengths`, put together to sequences of at most `size` ids.

    Rows of a sequence rise; sequences are in the order of their first rows. Equal lengths give
    equal packs.

    Args:
        lengths: each at most `size`.
        size: ids that a sequence may have.
    """
    packs: list[list[int]] = []
    spaces: list[int] = []
    """How much room there is, in some sequence; rising, each value once."""
    open_packs: dict[int, list[int]] = {}
    """The sequences that have just so much room."""
    for row in np.argsort(-lengths, kind="stable").tolist():
        length = int(lengths[row])
        place = bisect_left(spaces, length)
        if place < len(spaces):
            space = spaces[place]
            pack = open_packs[space].pop()
            if not open_packs[space]:
                del open_packs[space], spaces[place]
        else:
            space, pack = size, len(packs)
            packs.append([])
        packs[pack].append(row)
        left = space - length
        if left not in open_packs:
            open_packs[left] = []
            insort(spaces, left)
        open_packs[left].append(pack)
    return sorted(sorted(rows) for rows in packs)

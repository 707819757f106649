"""What went wrong with a shard, and which of its rows are to blame."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from promptmill.workers.leases import Blame, RowRange

ROW_DEATHS = 2
"""Attempts that one row must end, alone in its batch, before it is guilty: one could be chance."""
SHARD_DEATHS = 12
"""Attempts that may end without any row to blame."""
SHARD_FAILURES = 3
"""Attempts of a shard that may end in an error of the process (disk, network)."""


@dataclass(slots=True)
class Trouble:
    """Kept for shards that had trouble only."""

    failures: int = 0
    deaths: int = 0
    careful: list[RowRange] = field(default_factory=list)
    """Rows that were at work when an attempt ended: taken one by one in the next."""
    guilty: dict[int, Blame] = field(default_factory=dict)
    """Rows to reject untouched."""
    _row_deaths: Counter[int] = field(default_factory=Counter)

    def narrow(self, rows: RowRange | None, blame: Blame) -> None:
        """Learn from an attempt that ended while `rows` were at work."""
        self.deaths += 1
        if rows is None:
            return
        if rows.stop - rows.start > 1:
            self.careful.append(rows)
            return
        self._row_deaths[rows.start] += 1
        if self._row_deaths[rows.start] >= ROW_DEATHS:
            self.guilty[rows.start] = blame
            self.deaths = 0

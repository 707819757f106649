"""What went wrong with a shard, and which of its rows are to blame."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from promptmill.schemas.errors import ErrorCode
from promptmill.workers.leases import Blame, Failure, RowRange

ROW_DEATHS = 2
"""Attempts that one row must end, alone in its batch, before it is guilty: one could be chance."""
SHARD_DEATHS = 12
"""Attempts that may end without any row to blame."""
NO_ROW_TO_BLAME = (
    f"Shard {{shard}} ended {SHARD_DEATHS} attempts and no single row is to blame (last: "
    "{reason}). Look at the memory of the workers' machines, or cut smaller shards (--shard-bytes)."
)
SHARD_FAILURES = 3
"""Attempts of a shard that may end in an error of the process (disk, network)."""

ROW_CODES = {
    Failure.ROWS: ErrorCode.INTERNAL_ERROR,
    Failure.MEMORY: ErrorCode.MEMORY_EXCEEDED,
}
"""What a row is rejected with that ends attempts in this way."""


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

    def narrow(self, rows: RowRange | None, blame: Blame) -> bool:
        """Learn from an attempt that ended while `rows` were at work; whether to go on."""
        self.deaths += 1
        if rows is not None and rows.stop - rows.start > 1:
            self.careful.append(rows)
        elif rows is not None:
            self._row_deaths[rows.start] += 1
            if self._row_deaths[rows.start] >= ROW_DEATHS:
                self.guilty[rows.start] = blame
                self.deaths = 0
        return self.deaths < SHARD_DEATHS

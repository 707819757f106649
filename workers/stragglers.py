"""Finds shards that take a worker far longer than their rows should.

Near the end of a run an idle worker does such a shard, too. The two attempts write the same bytes;
who is first is published, the other gives up.
"""

from __future__ import annotations

from promptmill.workers.lease_table import Held, LeaseTable

SLOW_FACTOR = 3.0
"""So many times what others took for as many rows."""
SEEN = 8
"""Of the oldest leases: asking for work must cost the same in any fleet."""


class Stragglers:
    """Knows how long rows take in this run.

    Args:
        table: who holds what.
        least_seconds: nothing younger is one.
    """

    def __init__(self, table: LeaseTable, least_seconds: float) -> None:
        self._table, self._least_seconds = table, least_seconds
        self._rows, self._seconds = 0, 0.0

    def learn(self, held: Held, now: float) -> None:
        """A shard is done."""
        self._rows += held.lease.shard.rows
        self._seconds += now - held.since

    def find(self, worker: str, now: float) -> Held | None:
        """A lease that another worker has had for too long, and its shard to itself."""
        if not self._rows:
            return None
        for held in self._table.oldest_alone(SEEN):
            limit = max(self._least_seconds, SLOW_FACTOR * self.usual_seconds(held))
            if now - held.since > limit and held.worker != worker:
                return held
        return None

    def usual_seconds(self, held: Held) -> float:
        """What workers take for as many rows."""
        return self._seconds / self._rows * held.lease.shard.rows

"""How many workers a run should have: as many as the queue has work for, within what was asked."""

from __future__ import annotations

from dataclasses import dataclass

from promptmill.schemas.options import WorkerRange
from promptmill.workers.leases import Snapshot


@dataclass(slots=True)
class FleetSize:
    """Grows by doubling while more shards wait than there are workers.

    Twice as many are asked for only when the ones before are ready, so that a short job asks a
    cluster for few machines. Workers that wait for nothing leave by themselves (see `JobQueue`).
    """

    range: WorkerRange

    def wanted(self, snapshot: Snapshot, members: int) -> int:
        """The number of workers that there should be.

        Args:
            snapshot: the queue.
            members: workers that there are, ready or not.
        """
        wanted = max(members, self.range.least)
        if snapshot.workers >= members and snapshot.shards_waiting > members:
            wanted = max(2 * members, self.range.least)
        open_shards = snapshot.shards - snapshot.shards_done
        return min(wanted, self.range.most, open_shards)

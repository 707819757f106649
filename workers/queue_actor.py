"""The queue as a Ray actor. When it dies, Ray starts it again and calls to it wait for that."""

from __future__ import annotations

from random import SystemRandom

import ray
from ray import ObjectRef, cloudpickle

from promptmill.workers.leases import Work
from promptmill.workers.ledger import sound_ledger
from promptmill.workers.output_folder import OutputFolder
from promptmill.workers.queue import JobQueue

QUEUE_RESTARTS = 3
"""A queue that dies more often has a reason that it will meet again."""


class QueueActor(JobQueue):
    """Begins from the receipts where an earlier one died.

    Attempts that were under way are void, as the new queue knows no lease of the old one: numbers
    of leases do not come again.

    Args:
        plan: a pickled reference to what is to be done, as the driver saw it at the start.
        folder: where the receipts are.
        lease_seconds: see `JobQueue`.
        least_workers: see `JobQueue`.
    """

    def __init__(
        self,
        plan: bytes,
        folder: OutputFolder,
        lease_seconds: float,
        least_workers: int | None,
    ) -> None:
        kept: ObjectRef[Work] = cloudpickle.loads(plan)
        work = ray.get(kept)
        again = ray.get_runtime_context().was_current_actor_reconstructed
        if again:
            ledger = sound_ledger(folder)
            work = Work(work.shards, ledger.committed, ledger.totals)
        first = SystemRandom().getrandbits(48)
        super().__init__(
            work, lease_seconds=lease_seconds, least_workers=least_workers, first_lease=first
        )
        if again:
            self.note(
                f"warning: the queue died; it goes on from {len(work.committed):,} receipts, and "
                "shards that were under way are done again"
            )

"""Keeps a lease alive while its batches go on."""

from __future__ import annotations

import time
from threading import Event, Thread

from promptmill.schemas.run import Totals
from promptmill.workers.leases import Lease, RowRange, ShardQueue

STALL_SECONDS = 900.0
"""A batch that takes longer is taken for a hang: its lease is renewed no more."""


class Heartbeat:
    """Renews a lease from a thread of its own, as a context manager around the attempt.

    Args:
        queue: where the lease comes from; called from both threads.
        lease: which.
        stall: seconds without a new batch after which there are none any more.
    """

    def __init__(
        self,
        queue: ShardQueue,
        lease: Lease,
        *,
        stall: float = STALL_SECONDS,
    ) -> None:
        self._queue, self._lease, self._stall = queue, lease, stall
        self._moved = time.monotonic()
        self._over = Event()
        self._thread = Thread(target=self._beat, name="heartbeat", daemon=True)

    def begin(self, rows: RowRange | None, done: Totals) -> bool:
        """`ShardQueue.begin` for this lease."""
        self._moved = time.monotonic()
        return self._queue.begin(self._lease.id, rows, done)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._over.wait(self._lease.sign_of_life):
            still = time.monotonic() - self._moved
            if still < self._lease.sign_of_life:
                continue  # the batch was one
            stalled = still > self._stall
            if stalled or not self._queue.renew(self._lease.id):
                return

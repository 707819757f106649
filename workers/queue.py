"""The job queue: leases on shards, returned when their worker dies or goes silent.

A plain class without Ray and without I/O. The fleet makes an actor of it, `--local` calls it
directly, and tests drive it with a clock of their own. Executing a shard twice is harmless
(files are published once), so a late answer to an expired lease is welcome where the shard is
still open and ignored where it is not.

A worker says which rows it takes before it takes them. When it dies, these rows are gone
through one by one in the next attempt (`trouble.py`), until it is known which one is guilty: that
row becomes a reject and the rest of the shard is kept.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from threading import Lock

from promptmill.schemas.errors import ErrorCode
from promptmill.schemas.run import Totals
from promptmill.workers.breaker import hopeless
from promptmill.workers.lease_table import Held, LeaseTable
from promptmill.workers.leases import Blame, Failure, Lease, Order, RowRange, Snapshot, Work
from promptmill.workers.roster import Roster
from promptmill.workers.stragglers import Stragglers
from promptmill.workers.trouble import NO_ROW_TO_BLAME, ROW_CODES, SHARD_FAILURES, Trouble

LEASE_SECONDS = 30.0
"""How long a lease lives without a sign of life."""
SIGNS_OF_LIFE = 6
"""Workers give so many while a lease lives."""
HELD_SHOWN = 8
"""Leases that a snapshot names."""


class JobQueue:
    """Hands out shards until every one of them is committed.

    Args:
        work: what is to be done.
        lease_seconds: how long a lease lives without a sign of life.
        least_workers: so many stay while there is no work for them; None: all.
        first_lease: number of the first lease.
        now: a monotonic clock in seconds.
    """

    def __init__(
        self,
        work: Work,
        *,
        lease_seconds: float = LEASE_SECONDS,
        least_workers: int | None = None,
        first_lease: int = 1,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shards = work.shards
        self._done = bytearray(len(work.shards))
        for index in work.committed:
            self._done[index] = 1
        self._open = len(work.shards) - sum(self._done)
        self._fresh = 0  # no shard before it waits for its first lease
        self._back: deque[int] = deque()  # shards that wait again
        self._table = LeaseTable(lease_seconds)
        self._totals = work.resumed
        self._lease_seconds = lease_seconds
        self._now = now
        self._next_lease = first_lease
        self._trouble: dict[int, Trouble] = {}
        self._stragglers = Stragglers(self._table, lease_seconds)
        self._workers = Roster(least_workers)
        self._silent: list[str] = []
        self._notes: list[str] = []
        self._failure: str | None = None
        self._stopped = False
        self._reference_engine = False
        self._said: set[str] = set()
        self._lock = Lock()  # with --local the worker and the driver are threads of one process

    def hello(self, worker: str, note: str) -> None:
        """A worker is ready; `note` is for the log."""
        with self._lock:
            self._workers.add(worker)
            self._notes.append(note)

    def note(self, text: str) -> None:
        """Something for the log; said once, however many workers say it."""
        with self._lock:
            if text not in self._said:
                self._said.add(text)
                self._notes.append(text)

    def lease(self, worker: str) -> Lease | Order:
        """A shard for `worker`: one that waits, else one that others take too long for."""
        with self._lock:
            self._expire()
            if self._stopped or not self._open:
                return Order.STOP
            self._workers.add(worker)
            index = self._waiting()
            if index is None:
                index = self._straggler(worker)
            return self._idle(worker) if index is None else self._grant(worker, index)

    def begin(self, lease: int, rows: RowRange | None, done: Totals) -> bool:
        """`rows` come next; `done` is what the attempt has done so far. Renews the lease.

        Args:
            rows: None while no row is at work: the shard is about to be published.

        Returns:
            False when the attempt is void and must be given up without publishing.
        """
        with self._lock:
            held = self._valid(lease)
            if held is None:
                return False
            self._table.progress(held, rows, done)
            self._check_breaker()
            return not self._stopped

    def renew(self, lease: int) -> bool:
        """Prolong a lease; False when it is void."""
        with self._lock:
            return self._valid(lease) is not None

    def commit(self, lease: int, shard: int, totals: Totals) -> None:
        """The receipt of `shard` is published; also welcome from a lease that ran out."""
        with self._lock:
            held = self._table.get(lease)
            if held is not None:
                self._table.remove(held)
            if self._done[shard]:
                return
            if held is not None:
                self._stragglers.learn(held, self._now())
            self._table.close(shard)
            self._done[shard] = 1
            self._open -= 1
            self._totals += totals
            self._trouble.pop(shard, None)
            self._check_breaker()

    def fail(self, lease: int, failure: Failure, message: str) -> None:
        """An attempt ended in an error: what becomes of the shard and the run."""
        with self._lock:
            held = self._table.get(lease)
            if held is None:
                return
            if failure is Failure.RUN:
                self._stop(message)
            elif failure is Failure.ENGINE:
                self._give_back(held, None)
                if not self._reference_engine:
                    self._notes.append(f"warning: {message}")
                self._reference_engine = True
            else:
                code = ROW_CODES.get(failure)
                self._give_back(held, None if code is None else Blame(code, message))
            if failure is Failure.ATTEMPT:
                self._count_failure(held.shard, message)

    def lost(
        self, worker: str, reason: str, code: ErrorCode | None = ErrorCode.WORKER_CRASHED
    ) -> bool:
        """`worker` died and whatever it held goes back; whether it had ever been ready.

        A row that was the reason is rejected with `code`; None: no row can be the reason.
        """
        with self._lock:
            ready = worker in self._workers
            self._workers.remove(worker)
            self._notes.append(f"worker {worker} {reason}")
            for held in self._table.of_worker(worker):
                self._give_back(held, None if code is None else Blame(code, reason))
            return ready

    def stop(self) -> None:
        """No more leases; attempts that are under way are void."""
        with self._lock:
            self._stopped = True

    def snapshot(self) -> Snapshot:
        """The state of the run; takes the notes out."""
        with self._lock:
            self._expire()
            silent, self._silent = tuple(self._silent), []
            notes, self._notes = tuple(self._notes), []
            return Snapshot(
                totals=self._totals + self._table.running,
                shards=len(self._shards),
                shards_done=len(self._shards) - self._open,
                shards_waiting=self._open - self._table.shards,
                workers=len(self._workers),
                failure=self._failure,
                silent=silent,
                notes=notes,
                held=tuple(
                    f"worker {h.worker}: shard {h.shard}, {self._now() - h.since:.0f} s"
                    for h in self._table.oldest(HELD_SHOWN)
                ),
            )

    def _waiting(self) -> int | None:
        """The next open shard that nobody has."""
        while self._back:
            index = self._back.popleft()
            if not self._done[index]:  # else a late worker did it
                return index
        found = self._done.find(0, self._fresh)
        self._fresh = len(self._done) if found < 0 else found + 1
        return None if found < 0 else found

    def _straggler(self, worker: str) -> int | None:
        now = self._now()
        held = self._stragglers.find(worker, now)
        if held is None:
            return None
        self._notes.append(
            f"shard {held.shard} takes worker {held.worker} {now - held.since:.0f} s where others "
            f"took {self._stragglers.usual_seconds(held):.0f} s: worker {worker} tries it, too"
        )
        return held.shard

    def _grant(self, worker: str, index: int) -> Lease:
        trouble = self._trouble.get(index, Trouble())
        lease = Lease(
            self._next_lease,
            self._shards[index],
            self._lease_seconds / SIGNS_OF_LIFE,
            tuple(trouble.careful),
            dict(trouble.guilty),
            self._reference_engine,
        )
        self._next_lease += 1
        self._workers.works(worker)
        self._table.add(lease, worker, self._now())
        return lease

    def _idle(self, worker: str) -> Order:
        """What a worker does for which there is nothing to do."""
        if not self._workers.may_leave(worker, self._now()):
            return Order.WAIT
        self._workers.remove(worker)
        self._notes.append(f"worker {worker} is not needed any more")
        return Order.STOP

    def _valid(self, lease: int) -> Held | None:
        """A lease that still counts, renewed."""
        self._expire()
        held = self._table.get(lease)
        if held is None:
            return None
        if self._stopped or self._done[held.shard]:
            self._table.remove(held)
            return None
        self._table.renew(held, self._now())
        return held

    def _expire(self) -> None:
        for held in self._table.expired(self._now()):
            self._silent.append(held.worker)
            self._workers.remove(held.worker)
            self._notes.append(f"worker {held.worker} went silent")
            self._give_back(held, Blame(ErrorCode.WORKER_CRASHED, "went silent"))

    def _give_back(self, held: Held, blame: Blame | None) -> None:
        """Take a lease back; `blame` is for the rows at work."""
        if self._table.remove(held):
            self._notes.append(f"shard {held.shard} of worker {held.worker} goes back to the queue")
            self._back.append(held.shard)
        if blame is None or self._done[held.shard]:
            return
        trouble = self._trouble.setdefault(held.shard, Trouble())
        if not trouble.narrow(held.rows, blame):
            self._stop(NO_ROW_TO_BLAME.format(shard=held.shard, reason=blame.reason))

    def _count_failure(self, shard: int, message: str) -> None:
        """An attempt ended in an error of the process; a shard may have few of them."""
        if self._done[shard]:
            return
        trouble = self._trouble.setdefault(shard, Trouble())
        trouble.failures += 1
        if trouble.failures >= SHARD_FAILURES:
            self._stop(f"Shard {shard} failed {trouble.failures} times, last: {message}")
        else:
            self._notes.append(f"shard {shard} failed: {message}")

    def _check_breaker(self) -> None:
        if self._totals.rows_ok or self._stopped:
            return
        if (why := hopeless(self._totals + self._table.running)) is not None:
            self._stop(why)

    def _stop(self, failure: str) -> None:
        self._failure = self._failure or failure
        self._stopped = True

"""The job queue: leases on shards, returned when their worker dies or goes silent.

A plain class without Ray and without I/O. The fleet makes an actor of it, `--local` calls it
directly, and tests drive it with a clock of their own. Executing a shard twice is harmless
(files are published once), so a late answer to an expired lease is welcome where the shard is
still open and ignored where it is not.

A worker says which rows it takes before it takes them. When it dies, these rows are gone
through one by one in the next attempt, until a single row has ended `ROW_DEATHS` attempts: that
row becomes a reject and the rest of the shard is kept.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from promptmill.schemas.errors import ErrorCode
from promptmill.schemas.run import Totals
from promptmill.workers.leases import Blame, Failure, Lease, Order, RowRange, Snapshot, Work

LEASE_SECONDS = 30.0
"""How long a lease lives without a sign of life. Workers renew it every sixth of that."""
ROW_DEATHS = 2
"""Attempts that one row must end, alone in its batch, before it is guilty: one could be chance."""
SHARD_DEATHS = 12
"""Attempts that may end without any row to blame."""
SHARD_FAILURES = 3
"""Attempts of a shard that may end in an error of the process (disk, network)."""
BREAKER_ROWS = 1000
"""So many first rows that all fail in the same way stop the run."""


@dataclass(slots=True)
class _Held:
    lease: Lease
    worker: str
    since: float
    deadline: float
    rows: RowRange | None = None
    done: Totals = field(default_factory=Totals)


@dataclass(slots=True)
class _Trouble:
    """What went wrong with a shard so far; kept for shards that had trouble only."""

    failures: int = 0
    deaths: int = 0
    careful: list[RowRange] = field(default_factory=list)
    row_deaths: Counter[int] = field(default_factory=Counter)
    guilty: dict[int, Blame] = field(default_factory=dict)


class JobQueue:
    """Hands out shards until every one of them is committed.

    Args:
        work: what is to be done.
        lease_seconds: how long a lease lives without a sign of life.
        now: a monotonic clock in seconds.
    """

    def __init__(
        self,
        work: Work,
        *,
        lease_seconds: float = LEASE_SECONDS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shards = shards = work.shards
        self._done = bytearray(len(shards))
        for index in work.committed:
            self._done[index] = 1
        self._open = len(shards) - sum(self._done)
        self._pending = deque(i for i in range(len(shards)) if not self._done[i])
        self._totals = work.resumed
        self._lease_seconds = lease_seconds
        self._now = now
        self._next_expiry = now()  # no lease ends before: deadlines only move on
        self._leases = 0
        self._held: dict[int, _Held] = {}
        self._trouble: dict[int, _Trouble] = {}
        self._workers: set[str] = set()
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
        """The next open shard for `worker`, or what to do instead."""
        with self._lock:
            self._expire()
            if self._stopped or not self._open:
                return Order.STOP
            while self._pending:
                index = self._pending.popleft()
                if not self._done[index]:
                    return self._grant(worker, index)
            return Order.WAIT

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
            held.rows, held.done = rows, done
            self._check_breaker()
            return not self._stopped

    def renew(self, lease: int) -> bool:
        """Prolong a lease; False when it is void."""
        with self._lock:
            return self._valid(lease) is not None

    def commit(self, lease: int, shard: int, totals: Totals) -> None:
        """The receipt of `shard` is published; also welcome from a lease that ran out."""
        with self._lock:
            self._held.pop(lease, None)
            if self._done[shard]:
                return
            self._done[shard] = 1
            self._open -= 1
            self._totals += totals
            self._trouble.pop(shard, None)
            self._check_breaker()

    def fail(self, lease: int, failure: Failure, message: str) -> None:
        """An attempt ended in an error: what becomes of the shard and the run."""
        with self._lock:
            held = self._held.get(lease)
            if held is None:
                return
            index = held.lease.shard.index
            if failure is Failure.RUN:
                self._stop(message)
            elif failure is Failure.ENGINE:
                self._give_back(held, None)
                if not self._reference_engine:
                    self._notes.append(f"warning: {message}")
                self._reference_engine = True
            elif failure is Failure.ROWS:
                self._give_back(held, Blame(ErrorCode.INTERNAL_ERROR, message))
            else:
                self._give_back(held, None)
                trouble = self._trouble.setdefault(index, _Trouble())
                trouble.failures += 1
                if trouble.failures >= SHARD_FAILURES:
                    self._stop(f"Shard {index} failed {trouble.failures} times, last: {message}")
                else:
                    self._notes.append(f"shard {index} failed: {message}")

    def lost(self, worker: str, reason: str) -> bool:
        """`worker` died and whatever it held goes back; whether it had ever been ready."""
        with self._lock:
            ready = worker in self._workers
            self._workers.discard(worker)
            self._notes.append(f"worker {worker} {reason}")
            for held in [h for h in self._held.values() if h.worker == worker]:
                self._give_back(held, Blame(ErrorCode.WORKER_CRASHED, reason))
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
            oldest = sorted(self._held.values(), key=lambda held: held.since)[:8]
            return Snapshot(
                totals=self._all_totals(),
                shards=len(self._shards),
                shards_done=len(self._shards) - self._open,
                workers=len(self._workers),
                failure=self._failure,
                silent=silent,
                notes=notes,
                held=tuple(
                    f"worker {h.worker}: shard {h.lease.shard.index}, {self._now() - h.since:.0f} s"
                    for h in oldest
                ),
            )

    def _grant(self, worker: str, index: int) -> Lease:
        self._leases += 1
        trouble = self._trouble.get(index, _Trouble())
        lease = Lease(
            self._leases,
            self._shards[index],
            tuple(trouble.careful),
            dict(trouble.guilty),
            self._reference_engine,
        )
        now = self._now()
        self._held[lease.id] = _Held(lease, worker, now, now + self._lease_seconds)
        return lease

    def _valid(self, lease: int) -> _Held | None:
        """A lease that still counts, renewed."""
        self._expire()
        held = self._held.get(lease)
        if held is None:
            return None
        if self._stopped or self._done[held.lease.shard.index]:
            del self._held[lease]
            return None
        held.deadline = self._now() + self._lease_seconds
        return held

    def _expire(self) -> None:
        now = self._now()
        if now < self._next_expiry:
            return
        for held in [h for h in self._held.values() if h.deadline <= now]:
            self._silent.append(held.worker)
            self._workers.discard(held.worker)
            self._notes.append(f"worker {held.worker} went silent")
            self._give_back(held, Blame(ErrorCode.WORKER_CRASHED, "went silent"))
        deadlines = [held.deadline for held in self._held.values()]
        self._next_expiry = min(deadlines, default=now + self._lease_seconds)

    def _give_back(self, held: _Held, blame: Blame | None) -> None:
        """Take a lease back; `blame` is for the rows at work."""
        del self._held[held.lease.id]
        index = held.lease.shard.index
        if self._done[index]:
            return
        self._notes.append(f"shard {index} of worker {held.worker} goes back to the queue")
        self._pending.appendleft(index)
        if blame is None:
            return
        trouble = self._trouble.setdefault(index, _Trouble())
        _narrow(trouble, held.rows, blame)
        if trouble.deaths >= SHARD_DEATHS:
            self._stop(
                f"Shard {index} ended {trouble.deaths} attempts and no single row is to blame "
                f"(last: {blame.reason}). Look at the memory of the workers' machines, or cut "
                "smaller shards (--shard-bytes)."
            )

    def _all_totals(self) -> Totals:
        return sum((held.done for held in self._held.values()), self._totals)

    def _check_breaker(self) -> None:
        if self._totals.rows_ok or self._stopped:
            return
        seen = self._all_totals()
        if seen.rows_ok or seen.rows_rejected < BREAKER_ROWS or len(seen.rejects) != 1:
            return
        (code,) = seen.rejects
        if code != ErrorCode.DROPPED_OVERLONG:  # what the job asked for is no fault
            self._stop(
                f"The first {seen.rows_rejected:,} prompts all failed with {code}: the job looks "
                "wrong, not the rows. Nothing that is committed is lost."
            )

    def _stop(self, failure: str) -> None:
        self._failure = self._failure or failure
        self._stopped = True


def _narrow(trouble: _Trouble, rows: RowRange | None, blame: Blame) -> None:
    """Learn from an attempt that ended while `rows` were at work."""
    trouble.deaths += 1
    if rows is None:
        return
    if rows.stop - rows.start > 1:
        trouble.careful.append(rows)
        return
    trouble.row_deaths[rows.start] += 1
    if trouble.row_deaths[rows.start] >= ROW_DEATHS:
        trouble.guilty[rows.start] = blame
        trouble.deaths = 0

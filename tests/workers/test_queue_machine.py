"""The queue under any order of events: every shard once, no lease lost, the guilty stay guilty."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from promptmill.schemas.errors import ErrorCode
from promptmill.schemas.run import Totals
from promptmill.schemas.shard import InputCompression, InputFile, InputKind, Shard
from promptmill.workers.leases import Failure, Lease, Order, RowRange, Work
from promptmill.workers.queue import LEASE_SECONDS, JobQueue

FILE = InputFile("/in.jsonl", "in.jsonl", InputKind.JSONL, InputCompression.NONE, 1000)
ROWS, BATCH = 10, 5


@dataclass(eq=False)
class Attempt:
    """A worker with its lease, and what it still has to do."""

    worker: str
    lease: Lease
    deadline: float
    batches: list[RowRange]
    done: Totals = field(default_factory=Totals)
    next_done: Totals = field(default_factory=Totals)


def cut(lease: Lease) -> list[RowRange]:
    """What a worker makes of a lease: batches, single rows where care is asked for."""
    start = lease.shard.first_row
    alone = {row for span in lease.careful for row in range(*span)} | set(lease.guilty)
    batches: list[RowRange] = []
    for row in range(start, start + ROWS):
        last = batches[-1] if batches else None
        if last and row not in alone and last.start not in alone and row - last.start < BATCH:
            batches[-1] = RowRange(last.start, row + 1)
        else:
            batches.append(RowRange(row, row + 1))
    return batches


class QueueMachine(RuleBasedStateMachine):
    attempts: Bundle[Attempt] = Bundle("attempts")

    @initialize(count=st.integers(1, 6), data=st.data())
    def begin_run(self, count: int, data: st.DataObject) -> None:
        shards = [Shard(i, FILE, i, i + 1, i * ROWS, ROWS) for i in range(count)]
        done = data.draw(st.sets(st.integers(0, count - 1), max_size=count - 1))
        rows = st.integers(0, count * ROWS - 1)
        self.poison = data.draw(st.sets(rows, max_size=2))
        self.clock, self.born, self.chances = 0.0, 0, 0
        self.count, self.resumed = count, Totals(rows_ok=ROWS * len(done))
        self.committed = {shard: Totals(rows_ok=ROWS) for shard in done}
        self.valid: dict[int, Attempt] = {}
        self.guilty: dict[int, set[int]] = {}
        self.jobs = JobQueue(Work(shards, sorted(done), self.resumed), now=lambda: self.clock)

    def ask(self) -> Attempt | Order:
        """A new worker asks for work."""
        self.born += 1
        waiting = self.jobs.snapshot().shards_waiting
        answer = self.jobs.lease(f"w{self.born}")
        if not isinstance(answer, Lease):
            assert waiting == 0
            assert (answer is Order.STOP) == (len(self.committed) == self.count)
            return answer
        shard = answer.shard.index
        assert shard not in self.committed
        assert answer.id not in self.valid
        assert set(answer.guilty) >= self.guilty.get(shard, set())
        assert set(answer.guilty) <= self.poison
        self.guilty[shard] = set(answer.guilty)
        attempt = Attempt(f"w{self.born}", answer, self.clock + LEASE_SECONDS, cut(answer))
        self.valid[answer.id] = attempt
        return attempt

    def step(self, attempt: Attempt) -> bool:
        """One batch, or the end; whether the attempt goes on."""
        lease, known = attempt.lease, attempt.lease.id in self.valid
        rows = attempt.batches.pop(0) if attempt.batches else None
        assert self.jobs.begin(lease.id, rows, attempt.next_done) is known
        if not known:
            return False
        attempt.deadline = self.clock + LEASE_SECONDS
        attempt.done = attempt.next_done
        if rows is None:
            self.commit(attempt)
            return False
        for row in range(*rows):
            if row in self.poison and row not in lease.guilty:
                self.end(attempt)
                self.jobs.lost(attempt.worker, "died")
                return False
        rejected = sum(row in lease.guilty for row in range(*rows))
        codes = {ErrorCode.WORKER_CRASHED.value: rejected} if rejected else {}
        attempt.next_done += Totals(
            rows_ok=rows.stop - rows.start - rejected, rows_rejected=rejected, rejects=codes
        )
        return True

    def commit(self, attempt: Attempt) -> None:
        shard = attempt.lease.shard.index
        self.jobs.commit(attempt.lease.id, shard, attempt.next_done)
        self.committed.setdefault(shard, attempt.next_done)
        for other in [a for a in self.valid.values() if a.lease.shard.index == shard]:
            self.end(other)

    def end(self, attempt: Attempt) -> None:
        self.valid.pop(attempt.lease.id, None)

    def by_chance(self) -> bool:
        """Deaths that are nobody's fault are few: many of them end the run, as they should."""
        self.chances += 1
        return self.chances <= 4

    @rule(target=attempts)
    def start(self) -> object:
        answer = self.ask()
        return answer if isinstance(answer, Attempt) else multiple()

    @rule(attempt=attempts)
    def work(self, attempt: Attempt) -> None:
        self.step(attempt)

    @rule(attempt=consumes(attempts))
    def die(self, attempt: Attempt) -> None:
        whole = attempt.batches == cut(attempt.lease)
        if attempt.lease.id in self.valid and (not whole or not self.by_chance()):
            return
        self.end(attempt)
        self.jobs.lost(attempt.worker, "died")

    @rule(attempt=attempts)
    def finish_late(self, attempt: Attempt) -> None:
        """A worker that was cut off had published its shard all the same."""
        if attempt.lease.id not in self.valid and not attempt.batches:
            self.commit(attempt)

    @rule(attempt=consumes(attempts))
    def hand_back(self, attempt: Attempt) -> None:
        self.jobs.fail(attempt.lease.id, Failure.ENGINE, "the engine differs")
        self.end(attempt)

    @rule(seconds=st.sampled_from([1.0, LEASE_SECONDS / 2, LEASE_SECONDS + 1]))
    def wait(self, seconds: float) -> None:
        silent = [a for a in self.valid.values() if a.deadline <= self.clock + seconds]
        if any(attempt.batches != cut(attempt.lease) for attempt in silent):
            return  # a death by chance on a row could make it guilty: not what is tested here
        if silent and not self.by_chance():
            return
        self.clock += seconds
        for attempt in silent:
            self.end(attempt)
        assert set(self.jobs.snapshot().silent) >= {attempt.worker for attempt in silent}

    @invariant()
    def adds_up(self) -> None:
        if not hasattr(self, "jobs"):
            return
        seen = self.jobs.snapshot()
        running = [attempt.done for attempt in self.valid.values()]
        assert seen.totals == sum([*self.committed.values(), *running], Totals())
        held = {attempt.lease.shard.index for attempt in self.valid.values()}
        assert seen.shards_done == len(self.committed)
        assert seen.shards_waiting == self.count - len(self.committed) - len(held)
        copies = Counter(attempt.lease.shard.index for attempt in self.valid.values())
        assert max(copies.values(), default=0) <= 2
        assert seen.failure is None

    def teardown(self) -> None:
        """Honest workers bring every run to its end."""
        if not hasattr(self, "jobs"):
            return
        for attempt in list(self.valid.values()):
            while self.step(attempt):
                pass
        while isinstance(attempt := self.ask(), Attempt):
            while self.step(attempt):
                pass
        assert self.jobs.snapshot().finished
        assert sorted(self.committed) == list(range(self.count))
        rejected = sum(totals.rows_rejected for totals in self.committed.values())
        assert rejected <= len(self.poison)


QueueMachine.TestCase.settings = settings(deadline=None, max_examples=150, stateful_step_count=40)
test_any_order_of_events = QueueMachine.TestCase

"""Leases without Ray: deaths, silence, stragglers, the breaker; with a clock of our own."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType

import pytest

from clock import Clock
from promptmill.schemas.run import Totals
from promptmill.schemas.shard import Shard, Shards
from promptmill.workers.breaker import BREAKER_ROWS
from promptmill.workers.leases import Failure, Lease, Order, RowRange, Work
from promptmill.workers.queue import LEASE_SECONDS, JobQueue
from promptmill.workers.roster import IDLE_SECONDS
from promptmill.workers.trouble import SHARD_DEATHS, SHARD_FAILURES
from queues import FILE, GOOD, queue, shards, take


def test_hands_out_every_shard_once_and_then_stops() -> None:
    jobs = queue(3)
    leases = [take(jobs) for _ in range(3)]
    assert [lease.shard.index for lease in leases] == [0, 1, 2]
    assert jobs.lease("w") is Order.WAIT
    for lease in leases:
        assert jobs.begin(lease.id, None, GOOD)
        jobs.commit(lease.id, lease.shard.index, GOOD)
    assert jobs.lease("w") is Order.STOP
    seen = jobs.snapshot()
    assert seen.finished
    assert seen.totals.rows_ok == 30
    assert seen.failure is None


def test_committed_shards_are_not_handed_out_again() -> None:
    jobs = queue(3, committed=[0, 2], resumed=GOOD + GOOD)
    lease = take(jobs)
    assert lease.shard.index == 1
    jobs.commit(lease.id, 1, GOOD)
    assert jobs.snapshot().totals.rows_ok == 30


def test_a_dead_workers_lease_goes_back() -> None:
    jobs = queue(1)
    lease = take(jobs, "dead")
    assert jobs.begin(lease.id, RowRange(0, 10), Totals(lines=4))
    jobs.lost("dead", "died")
    again = take(jobs, "alive")
    assert again.shard == lease.shard
    assert again.id != lease.id
    assert again.careful == (RowRange(0, 10),)
    assert jobs.snapshot().totals.lines == 0
    assert not jobs.begin(lease.id, RowRange(4, 10), Totals())


def test_silence_ends_a_lease_and_signs_of_life_keep_it() -> None:
    clock = Clock()
    jobs = queue(2, clock)
    quiet, lively = take(jobs, "quiet"), take(jobs, "lively")
    for _ in range(4):
        clock.seconds += LEASE_SECONDS / 3
        assert jobs.renew(lively.id)
    seen = jobs.snapshot()
    assert seen.silent == ("quiet",)
    assert not jobs.renew(quiet.id)
    assert take(jobs, "lively").shard == quiet.shard
    assert jobs.snapshot().silent == ()


def test_a_late_commit_counts_once() -> None:
    clock = Clock()
    jobs = queue(1, clock)
    late = take(jobs, "late")
    clock.seconds += LEASE_SECONDS
    second = take(jobs, "second")
    jobs.commit(late.id, 0, GOOD)
    assert not jobs.begin(second.id, RowRange(0, 10), Totals())
    jobs.commit(second.id, 0, GOOD)
    assert jobs.snapshot().totals == GOOD
    clock.seconds += 2 * LEASE_SECONDS
    assert jobs.snapshot().silent == ()


def test_a_straggler_is_tried_beside_and_the_loser_gives_up() -> None:
    clock = Clock()
    jobs = queue(3, clock)
    slow, other = take(jobs, "slow"), take(jobs, "other")
    clock.seconds = 10
    jobs.commit(other.id, 1, GOOD)
    other = take(jobs, "other")
    jobs.commit(other.id, 2, GOOD)
    for _ in range(8):
        clock.seconds += 5
        assert jobs.begin(slow.id, RowRange(0, 5), Totals(lines=5))
        if clock.seconds - 10 <= LEASE_SECONDS - 10:
            assert jobs.lease("other") is Order.WAIT
    assert jobs.lease("slow") is Order.WAIT, "not its own shard"
    copy = take(jobs, "other")
    assert copy.shard == slow.shard
    assert jobs.lease("third") is Order.WAIT, "two attempts are enough"
    assert jobs.begin(copy.id, RowRange(0, 10), Totals())
    assert jobs.begin(slow.id, RowRange(5, 10), Totals(lines=5))
    jobs.commit(copy.id, 0, GOOD)
    assert not jobs.begin(slow.id, None, GOOD)
    jobs.commit(slow.id, 0, GOOD)
    seen = jobs.snapshot()
    assert seen.finished
    assert seen.totals == GOOD + GOOD + GOOD
    assert sum("tries it, too" in note for note in seen.notes) == 1


def test_a_straggler_that_dies_leaves_the_shard_to_its_copy() -> None:
    clock = Clock()
    jobs = queue(2, clock)
    slow, other = take(jobs, "slow"), take(jobs, "other")
    jobs.commit(other.id, 1, GOOD)
    for _ in range(4):
        clock.seconds += 10
        assert jobs.renew(slow.id)
    copy = take(jobs, "other")
    jobs.lost("slow", "died")
    assert jobs.lease("third") is Order.WAIT
    assert jobs.snapshot().shards_waiting == 0
    jobs.lost("other", "died")
    assert take(jobs, "third").shard == copy.shard


def test_large_shards_are_no_stragglers() -> None:
    clock = Clock()
    many = [Shard(0, FILE, 0, 10, 0, 1000), Shard(1, FILE, 10, 20, 1000, 10)]
    jobs = JobQueue(Work(many), now=clock)
    large, small = take(jobs, "large"), take(jobs, "small")
    clock.seconds = 2
    jobs.commit(small.id, 1, GOOD)
    for _ in range(50):
        clock.seconds += 10
        assert jobs.renew(large.id)
        assert jobs.lease("small") is Order.WAIT


def test_a_worker_that_is_asked_to_go_hands_its_shard_back() -> None:
    jobs = queue(1)
    for n in range(SHARD_DEATHS + SHARD_FAILURES):
        lease = take(jobs, f"w{n}")
        assert lease.careful == ()
        assert jobs.begin(lease.id, RowRange(0, 10), Totals())
        jobs.fail(lease.id, Failure.LEAVING, "asked to go")
        assert jobs.lost(f"w{n}", "was replaced")
    assert jobs.snapshot().failure is None


def test_workers_that_are_too_many_leave_when_nothing_waits() -> None:
    clock = Clock()
    jobs = JobQueue(Work(shards(1)), least_workers=2, now=clock)
    for name in ("a", "b", "c"):
        jobs.hello(name, "")
    lease = take(jobs, "a")
    assert [jobs.lease("b"), jobs.lease("c")] == [Order.WAIT, Order.WAIT]
    clock.seconds += IDLE_SECONDS
    assert jobs.renew(lease.id)
    assert [jobs.lease("b"), jobs.lease("c")] == [Order.STOP, Order.WAIT]
    assert jobs.snapshot().workers == 2


def test_leases_of_a_queue_before_are_void_and_its_commits_are_welcome() -> None:
    before = queue(2)
    old = [take(before, "a"), take(before, "b")]
    jobs = JobQueue(Work(shards(2)), first_lease=1000)
    assert not jobs.begin(old[0].id, RowRange(0, 10), Totals())
    jobs.commit(old[1].id, 1, GOOD)
    new = take(jobs, "a")
    assert new.id == 1000
    jobs.commit(new.id, 0, GOOD)
    assert jobs.snapshot().totals == GOOD + GOOD


def test_a_call_costs_the_same_however_many_leases_there_are() -> None:
    """In interpreted instructions, not in time: a look at every lease would show."""

    def cost(held: int) -> list[int]:
        clock = Clock()
        jobs = queue(held + 10, clock)
        leases = [take(jobs, f"w{n}") for n in range(held)]
        for lease in leases:
            jobs.begin(lease.id, RowRange(0, 10), GOOD)
        clock.seconds = 1
        middle, last = leases[held // 2], leases[-1]
        calls: list[Callable[[], object]] = [
            lambda: jobs.renew(middle.id),
            lambda: jobs.begin(last.id, RowRange(0, 10), GOOD + GOOD),
            lambda: jobs.lost("w7", "died"),
            lambda: jobs.lease("new"),
            lambda: jobs.fail(leases[9].id, Failure.ATTEMPT, "no"),
            lambda: jobs.commit(middle.id, middle.shard.index, GOOD),
            jobs.snapshot,
        ]
        return [instructions(call) for call in calls]

    assert cost(50) == cost(5000)


def test_finished_shards_take_no_memory() -> None:
    count = 10_000
    plan = Shards((FILE,))
    for n in range(count):
        plan.append(0, n * 10, n * 10 + 10, n * 10, 10, 0)
    jobs = JobQueue(Work(plan), now=Clock())
    held = [take(jobs) for _ in range(100)]
    tracemalloc.start()
    try:
        while len(held) > 1:
            lease = held.pop(0)
            jobs.begin(lease.id, RowRange(0, 10), Totals())
            jobs.commit(lease.id, lease.shard.index, GOOD)
            if isinstance(answer := jobs.lease("w"), Lease):
                held.append(answer)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert jobs.snapshot().shards_done == count - 1
    assert grown < 16 * count, "less than the smallest object for each"


def instructions(call: Callable[[], object]) -> int:
    """How many bytecode instructions a call runs."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> object:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    ("seen", "broken"),
    [
        (Totals(rows_rejected=BREAKER_ROWS, rejects={"template_error": BREAKER_ROWS}), True),
        (Totals(rows_rejected=BREAKER_ROWS - 1, rejects={"template_error": 1}), False),
        (Totals(rows_rejected=BREAKER_ROWS, rejects={"a": 1, "b": 2}), False),
        (Totals(rows_ok=1, rows_rejected=5000, rejects={"template_error": 5000}), False),
        (Totals(rows_rejected=5000, rejects={"dropped_overlong": 5000}), False),
    ],
)
def test_breaker(seen: Totals, broken: bool) -> None:
    jobs = queue(2)
    lease = take(jobs)
    assert jobs.begin(lease.id, None, seen) is not broken
    assert (jobs.snapshot().failure is not None) is broken

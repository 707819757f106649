"""Which row, or what else, is to blame for attempts that end badly."""

from __future__ import annotations

from promptmill.schemas.errors import ErrorCode
from promptmill.schemas.run import Totals
from promptmill.workers.leases import Blame, Failure, Lease, Order, RowRange
from promptmill.workers.trouble import SHARD_DEATHS, SHARD_FAILURES
from queues import queue, take


def test_a_poison_row_is_found_and_blamed() -> None:
    jobs = queue(1)
    deaths = 0
    while True:
        lease = take(jobs, f"w{deaths}")
        for rows in cut(lease):
            assert jobs.begin(lease.id, rows, Totals())
            if rows.start <= 7 < rows.stop and 7 not in lease.guilty:
                jobs.lost(f"w{deaths}", "died")
                deaths += 1
                break
        else:
            break
    assert lease.guilty == {7: Blame(ErrorCode.WORKER_CRASHED, "died")}
    assert deaths == 3


def cut(lease: Lease) -> list[RowRange]:
    """Batches of five rows, of one where care is asked for."""
    alone = [r for span in lease.careful for r in range(span.start, span.stop)]
    singles = [RowRange(r, r + 1) for r in alone]
    return singles + [r for r in (RowRange(0, 5), RowRange(5, 10)) if r.start not in alone]


def test_a_node_that_is_taken_away_blames_no_row() -> None:
    jobs = queue(1)
    for n in range(SHARD_DEATHS):
        lease = take(jobs, f"w{n}")
        assert lease.careful == ()
        assert jobs.begin(lease.id, RowRange(3, 4), Totals())
        jobs.lost(f"w{n}", "died with its node", None)
    assert jobs.snapshot().failure is None


def test_rows_that_fail_in_our_own_code_are_found_in_the_same_way() -> None:
    jobs = queue(1)
    while True:
        lease = take(jobs)
        for rows in cut(lease):
            assert jobs.begin(lease.id, rows, Totals())
            if rows.start <= 7 < rows.stop and 7 not in lease.guilty:
                jobs.fail(lease.id, Failure.ROWS, "TypeError")
                break
        else:
            break
    assert lease.guilty == {7: Blame(ErrorCode.INTERNAL_ERROR, "TypeError")}
    assert jobs.snapshot().failure is None


def test_one_chance_death_blames_no_row() -> None:
    jobs = queue(1)
    for worker in ("a", "b"):
        lease = take(jobs, worker)
        jobs.begin(lease.id, RowRange(3, 4), Totals())
        if worker == "a":
            jobs.lost(worker, "died")
    assert lease.guilty == {}


def test_a_shard_that_kills_without_a_guilty_row_ends_the_run() -> None:
    jobs = queue(1)
    for n in range(SHARD_DEATHS):
        take(jobs, str(n))
        jobs.lost(str(n), "died")
    assert "Shard 0" in (jobs.snapshot().failure or "")
    assert jobs.lease("w") is Order.STOP


def test_errors_are_tried_again_until_they_repeat() -> None:
    jobs = queue(2)
    for _ in range(SHARD_FAILURES):
        assert jobs.snapshot().failure is None
        lease = take(jobs)
        if lease.shard.index == 1:
            lease = take(jobs)
        jobs.fail(lease.id, Failure.ATTEMPT, "OSError: disk full")
    assert "disk full" in (jobs.snapshot().failure or "")


def test_a_fatal_error_ends_the_run_at_once() -> None:
    jobs = queue(2)
    first, second = take(jobs, "a"), take(jobs, "b")
    jobs.fail(first.id, Failure.RUN, "no chat template")
    assert jobs.snapshot().failure == "no chat template"
    assert not jobs.begin(second.id, RowRange(0, 1), Totals())
    assert jobs.lease("a") is Order.STOP

"""A queue of small shards, and what a worker does with it."""

from __future__ import annotations

from clock import Clock
from promptmill.schemas.run import Totals
from promptmill.schemas.shard import InputCompression, InputFile, InputKind, Shard
from promptmill.workers.leases import Lease, Work
from promptmill.workers.queue import JobQueue

FILE = InputFile("/in.jsonl", "in.jsonl", InputKind.JSONL, InputCompression.NONE, 1000)
GOOD = Totals(lines=10, rows_in=10, rows_ok=10, tokens=50)


def shards(count: int) -> list[Shard]:
    return [Shard(i, FILE, i * 10, i * 10 + 10, i * 10, 10) for i in range(count)]


def queue(count: int, clock: Clock | None = None, **work: object) -> JobQueue:
    return JobQueue(Work(shards(count), **work), now=clock or Clock())  # type: ignore[arg-type]


def take(jobs: JobQueue, worker: str = "w") -> Lease:
    lease = jobs.lease(worker)
    assert isinstance(lease, Lease)
    return lease

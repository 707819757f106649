"""The actor around a worker: one process, one core, one tokenizer."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

import pyarrow as pa
import ray
from ray import ObjectRef

from promptmill.schemas.run import Totals
from promptmill.workers.environment import ONE_THREAD
from promptmill.workers.leases import Failure, Lease, Order, RowRange
from promptmill.workers.logs import log_of_worker
from promptmill.workers.trial import Trial
from promptmill.workers.tuning import bound_memory, leave_pandas_out, memory_room
from promptmill.workers.work import WorkerSetup

Handle: TypeAlias = Any
"""An actor's handle. Ray types its own so that no method of a plain class can be called on it; what
the calls give is typed where they are made."""


class RemoteQueue:
    """The queue's actor as a `ShardQueue`."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def hello(self, worker: str, note: str) -> None:
        """See `JobQueue`."""
        call: ObjectRef[None] = self._handle.hello.remote(worker, note)
        ray.get(call)

    def note(self, text: str) -> None:
        """See `JobQueue`."""
        call: ObjectRef[None] = self._handle.note.remote(text)
        ray.get(call)

    def lease(self, worker: str) -> Lease | Order:
        """See `JobQueue`."""
        call: ObjectRef[Lease | Order] = self._handle.lease.remote(worker)
        return ray.get(call)

    def begin(self, lease: int, rows: RowRange | None, done: Totals) -> bool:
        """See `JobQueue`."""
        call: ObjectRef[bool] = self._handle.begin.remote(lease, rows, done)
        return ray.get(call)

    def renew(self, lease: int) -> bool:
        """See `JobQueue`."""
        call: ObjectRef[bool] = self._handle.renew.remote(lease)
        return ray.get(call)

    def commit(self, lease: int, shard: int, totals: Totals) -> None:
        """See `JobQueue`."""
        call: ObjectRef[None] = self._handle.commit.remote(lease, shard, totals)
        ray.get(call)

    def fail(self, lease: int, failure: Failure, message: str) -> None:
        """See `JobQueue`."""
        call: ObjectRef[None] = self._handle.fail.remote(lease, failure, message)
        ray.get(call)


class RenderWorker:
    """A worker as a Ray actor.

    Args:
        name: how the queue knows it.
        queue: the queue's actor.
        setup: what it is made of.
    """

    def __init__(self, name: str, queue: Handle, setup: WorkerSetup) -> None:
        os.environ.update(ONE_THREAD)
        pa.set_cpu_count(1)
        leave_pandas_out()
        log_of_worker(setup.log_format)
        self._name, self._queue, self._setup = name, RemoteQueue(queue), setup

    def run(self) -> bool:
        """Load the tokenizer, then work; see `Worker.run` for the answer.

        Raises:
            JobError: no worker can work here.
        """
        worker = self._setup.load(self._name, self._queue)
        worker.departure.listen()
        worker.try_rows = lambda reference: Trial(self._setup, reference=reference)
        bound_memory(memory_room())
        goes_on = worker.run()
        if worker.departure.asked:
            self._queue.note(f"worker {self._name} was asked to go (SIGTERM), and went")
        return goes_on

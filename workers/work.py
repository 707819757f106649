"""What a worker does, with Ray or without: take a lease, run its shard, ask again."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime

import psutil

from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.engines.base import EngineMismatch
from promptmill.pipeline.storage.faults import StorageError
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import JobError
from promptmill.schemas.run import Totals
from promptmill.workers.departure import Departure, HandedBack
from promptmill.workers.heartbeat import Heartbeat
from promptmill.workers.leases import Failure, Lease, Order, RowRange, ShardQueue
from promptmill.workers.logs import LogFormat, about
from promptmill.workers.shard_files import LeaseLost
from promptmill.workers.shard_job import EncodeFailed, ShardJob, run_shard
from promptmill.workers.trial import Trial
from promptmill.workers.tuning import calm_collector, give_back_memory

log = logging.getLogger(__name__)

WAIT_SECONDS, MOST_WAIT_SECONDS = 0.5, 5.0
"""Between two questions for work while others hold all of it: longer each time, as one queue hears
them all."""
RECYCLE_ROWS = 10_000_000
"""Rows after which a worker is replaced by a fresh one."""
RECYCLE_GROWTH = 2 << 30
"""Bytes of memory above its start at which a worker is replaced."""


def wait_seconds(waits: int) -> float:
    """How long a worker waits that has waited so often without getting work."""
    return min(WAIT_SECONDS * 2.0 ** min(waits, 10), MOST_WAIT_SECONDS)


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """What a worker is made of."""

    bundle: ModelBundle
    job: ShardJob
    clock: datetime
    """What templates are told the time is."""
    log_format: LogFormat = LogFormat.TEXT

    def encoder(self) -> Encoder:
        """One for this process."""
        return Encoder(self.bundle, self.job.options, self.clock)

    def load(self, name: str, queue: ShardQueue) -> Worker:
        """Load the tokenizer, once, and say so.

        Raises:
            JobError: no worker can work here.
        """
        host = socket.gethostname()
        folder = self.job.folder
        try:
            seen = folder.seen
        except StorageError as error:
            raise JobError(f"{host} does not reach the output: {error}") from None
        if not seen:
            raise JobError(
                f"{host} does not see the output folder {folder.root}. All machines of the "
                "cluster must share it."
            )
        start = time.monotonic()
        give_back_memory()  # what resolving the model took, where that was in this process
        encoder = self.encoder()
        calm_collector()
        seconds = time.monotonic() - start
        place = f"worker {name} on {host} (process {os.getpid()})"
        engine = encoder.tokenizer.engine
        queue.hello(name, f"{place}: tokenizer loaded in {seconds:.1f} s, engine {engine.name}")
        if engine.fallback_reason is not None:
            queue.note(f"engine {engine.name}: {engine.fallback_reason}")
        return Worker(name, queue, encoder, self.job)


class Worker:
    """Runs shards for a queue until it is told to stop or should be replaced.

    Args:
        name: how the queue knows this worker.
        queue: where the work comes from.
        encoder: loaded; used by one thread at a time.
        job: what is the same for all shards.
    """

    def __init__(self, name: str, queue: ShardQueue, encoder: Encoder, job: ShardJob) -> None:
        self._name, self._queue, self._encoder, self._job = name, queue, encoder, job
        self.departure = Departure()
        self.try_rows: Callable[[bool], Trial] | None = None
        """Makes what rows under suspicion are tried in; the argument: with the reference engine."""
        self._rows = 0
        self._process = psutil.Process()
        self._memory = self._process.memory_info().rss

    def run(self) -> bool:
        """Work; True when a fresh worker should go on, False when nothing is left to do."""
        waits = 0
        while not self.departure.asked:
            if (lease := self._queue.lease(self._name)) is Order.STOP:
                return False
            if lease is Order.WAIT:
                time.sleep(wait_seconds(waits))
                waits += 1
                continue
            waits = 0
            with about(run=self._job.run, worker=self._name, shard=lease.shard.index):
                self._attempt(lease)
            if self._worn():
                break
        return True

    def _attempt(self, lease: Lease) -> None:
        """One shard; every way it may end is told to the queue."""
        if lease.reference_engine:
            self._encoder = self._encoder.on_reference()
        started = time.monotonic()

        def begin(rows: RowRange | None, done: Totals) -> bool:
            whole = lease.shard.rows
            if rows is not None and not self.departure.leaves_time(started, done.lines, whole):
                raise HandedBack
            return beat.begin(rows, done)

        suspects = self.try_rows if lease.careful else None
        try:
            with (
                Heartbeat(self._queue, lease) as beat,
                suspects(lease.reference_engine) if suspects else nullcontext() as trial,
            ):
                receipt = run_shard(lease, self._encoder, self._job, begin, trial)
        except LeaseLost:
            return
        except HandedBack:
            self._queue.fail(lease.id, Failure.LEAVING, "the worker is asked to go")
        except JobError as error:
            self._queue.fail(lease.id, Failure.RUN, str(error))
        except EngineMismatch as error:
            self._queue.fail(lease.id, Failure.ENGINE, str(error))
        except EncodeFailed as error:
            self._queue.fail(lease.id, error.failure, str(error))
        except StorageError as error:  # its message says all
            self._queue.fail(lease.id, Failure.ATTEMPT, str(error))
        except Exception as error:  # whatever it is, the next attempt may go well
            log.exception("shard %d failed", lease.shard.index)
            message = f"{type(error).__name__}: {error}"
            self._queue.fail(lease.id, Failure.ATTEMPT, message)
        else:
            self._rows += receipt.totals.lines
            self._queue.commit(lease.id, lease.shard.index, receipt.totals)

    def _worn(self) -> bool:
        grown = self._process.memory_info().rss - self._memory
        return (
            self._encoder.needs_replacement or self._rows >= RECYCLE_ROWS or grown >= RECYCLE_GROWTH
        )

"""The fleet on Ray: starts the workers, watches them, replaces the dead.

A Ray of our own has as many CPUs as there are workers; the queue takes none, so that more
workers than cores cannot wait for each other. On a cluster, what is missing is said.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import ray
from ray import ObjectRef, cloudpickle
from ray.exceptions import (
    GetTimeoutError,
    OutOfMemoryError,
    RayActorError,
    RayError,
    RayTaskError,
)

from promptmill.schemas.errors import ErrorCode, JobError
from promptmill.schemas.options import WorkerRange
from promptmill.workers.environment import lease_seconds
from promptmill.workers.fleet_size import FleetSize
from promptmill.workers.head_watch import HeadWatch
from promptmill.workers.leases import Snapshot, Work
from promptmill.workers.metrics import Meter
from promptmill.workers.queue import JobQueue
from promptmill.workers.queue_actor import QUEUE_RESTARTS, QueueActor
from promptmill.workers.ray_entry import join_ray, last_line, shut_down, start_ray, this_node
from promptmill.workers.render_worker import Handle, RenderWorker
from promptmill.workers.work import WorkerSetup

POLL_SECONDS = 0.2
STOP_SECONDS = 5.0
"""Workers are given so long to give their shards up before they are ended."""
MOST_BAD_STARTS = 3
"""Workers in a row that may die before they are ready."""
SHORT_SECONDS = 30.0
"""After so long with fewer workers than wanted, what is missing is said; then ever more rarely."""
LOOK_SECONDS = 5.0
"""Between two looks at how large the cluster is."""
ANSWER_SECONDS = 2.0
"""Without an answer from the queue for so long, the head is looked after, again and again."""
QUEUE_SECONDS = 900.0
"""Without an answer for so long the queue is given up. One that starts again reads all receipts."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class _Member:
    """One worker."""

    name: str
    actor: Handle


class RayFleet:
    """Runs a queue on Ray. The interface is that of `local.LocalFleet`.

    Args:
        work: what is to be done.
        setup: what a worker is made of.
        workers: how many there should be; None: one for each CPU of Ray, also of those that come.
        address: of a cluster; None: a Ray of our own, here.
        say: takes a line for the log.
    """

    def __init__(
        self,
        work: Work,
        setup: WorkerSetup,
        *,
        workers: WorkerRange | None,
        address: str | None,
        say: Callable[[str], None],
    ) -> None:
        self._work, self._setup = work, setup
        self._fixed = workers is not None
        cores = len(os.sched_getaffinity(0))
        self._size = FleetSize(workers or WorkerRange(cores, cores))
        self._address, self._say = address, say
        self._members: dict[ObjectRef[bool], _Member] = {}
        self._started = self._bad_starts = 0
        self._next_look = 0.0
        self._finished = False
        self._asked: ObjectRef[Snapshot] | None = None
        self._asked_at = 0.0
        self._last = JobQueue(work).snapshot()
        self._meter: Meter | None = None
        self._short_since, self._patience = time.monotonic(), SHORT_SECONDS

    def start(self) -> None:
        """Start or join Ray, then the queue and the workers.

        Raises:
            JobError: there is no Ray at the address, it refuses access, or none can be started.
        """
        if self._address:
            join_ray(self._address)
        else:
            start_ray(self._size.range.most)
        queue = ray.remote(QueueActor).options(
            num_cpus=0,
            resources=this_node(),
            max_restarts=QUEUE_RESTARTS,
            max_task_retries=-1,  # calls wait for the new one
        )
        least = self._size.range.least if self._fixed else None
        # Ray forgets a large argument that it put aside by itself, and could not start the queue
        # again; what is kept here stays. (It warns of any reference among arguments: hence bytes.)
        self._plan = ray.put(self._work)
        plan: bytes = cloudpickle.dumps(self._plan)  # type: ignore[no-untyped-call]
        self._queue: Handle = queue.remote(plan, self._setup.job.folder, lease_seconds(), least)
        self._shared = ray.put(self._setup)
        if self._address:  # a Ray of our own has nobody who would ask for metrics
            self._meter = Meter(self._setup.job.run, self._work.resumed)
        self._head = HeadWatch(ray.get_runtime_context().gcs_address)
        self._short_since = time.monotonic()
        self._follow_cluster()
        open_shards = len(self._work.shards) - len(self._work.committed)
        self._fill(min(self._size.range.least, open_shards))

    def poll(self) -> Snapshot:
        """Wait a little, see to the workers, then say how things are.

        Raises:
            JobError: no worker can work, or the queue or the head is lost.
        """
        try:
            for call in self._ended(POLL_SECONDS):
                self._see_off(call, self._members.pop(call))
            snapshot = self._snapshot()
        except RayError as error:
            if isinstance(error, RayTaskError) and not isinstance(error, RayActorError):
                raise  # a fault of ours in it
            raise JobError(
                f"The queue of this run is lost: it was started again {QUEUE_RESTARTS} times, or "
                "cannot be. Look at the memory of the driver's machine; the same command continues "
                "the run."
            ) from error
        if self._meter is not None:
            self._meter.update(snapshot)
        self._end_silent(snapshot)
        self._finished = snapshot.finished
        if not snapshot.finished and snapshot.failure is None and self._head.answers():
            self._follow_cluster()
            self._fill(self._size.wanted(snapshot, len(self._members)))
            self._say_what_is_missing(snapshot)
        return snapshot

    def _snapshot(self) -> Snapshot:
        """What the queue says; while it does not answer, as when it starts again, what it said."""
        if self._asked is None:
            self._asked, self._asked_at = self._queue.snapshot.remote(), time.monotonic()
        answered, _ = ray.wait([self._asked], timeout=ANSWER_SECONDS)
        if not answered:
            self._head.answers()
            if time.monotonic() - self._asked_at > QUEUE_SECONDS:
                raise JobError(
                    f"The queue of this run has not answered for {QUEUE_SECONDS:.0f} seconds. Look "
                    "at the memory of the driver's machine and at the output's storage; the same "
                    "command continues the run."
                )
            return replace(self._last, silent=(), notes=())
        answer, self._asked = self._asked, None
        self._last = ray.get(answer)
        return self._last

    def close(self) -> None:
        """Let the workers give up what is under way, then end what the run has on Ray."""
        if not ray.is_initialized():
            return
        if self._members and not self._finished:  # else they wait for work at most
            with contextlib.suppress(RayError):  # the queue may be gone
                told: ObjectRef[None] = self._queue.stop.remote()
                ray.get(told, timeout=STOP_SECONDS)
                self._ended(STOP_SECONDS)
        shut_down()

    def _ended(self, seconds: float) -> list[ObjectRef[bool]]:
        """Wait for workers to end; those that did."""
        if not self._members:
            time.sleep(seconds)
            return []
        calls = list(self._members)
        ended, _ = ray.wait(calls, num_returns=len(calls), timeout=seconds)
        return ended

    def _follow_cluster(self) -> None:
        """Where no number was asked for, nodes that come or go change it."""
        if self._fixed or not self._address or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + LOOK_SECONDS
        cpus = max(1, int(_cpus(ray.cluster_resources)))
        self._size = FleetSize(WorkerRange(cpus, cpus))

    def _fill(self, wanted: int) -> None:
        """Start workers until there are enough."""
        while len(self._members) < wanted:
            self._started += 1
            name = str(self._started)
            make = ray.remote(RenderWorker).options(num_cpus=1, max_restarts=0)
            actor: Handle = make.remote(name, self._queue, self._shared)
            self._members[actor.run.remote()] = _Member(name, actor)

    def _see_off(self, call: ObjectRef[bool], member: _Member) -> None:
        """A worker's call has ended: well, with an error, or with its death."""
        try:
            goes_on = ray.get(call)
        except RayTaskError as error:
            if isinstance(error, RayActorError):
                raise  # the worker's: its queue is gone
            raise JobError(f"A worker cannot work: {last_line(error)}") from error
        except RayError as error:  # Ray has a class for each way to die
            reason, code = _death(error)
            ready = self._say_lost(member, reason, code)
            self._bad_starts = 0 if ready else self._bad_starts + 1
            if self._bad_starts >= MOST_BAD_STARTS:
                why = reason if code is ErrorCode.MEMORY_EXCEEDED else last_line(error)
                raise JobError(
                    f"{self._bad_starts} workers in a row died while they started; the last one: "
                    f"{why}"
                ) from error
        else:
            if goes_on:
                self._say_lost(member, "was replaced", None)
            ray.kill(member.actor)

    def _say_lost(self, member: _Member, reason: str, code: ErrorCode | None) -> bool:
        ready: bool = self._answer(self._queue.lost.remote(member.name, reason, code))
        return ready

    def _answer(self, call: ObjectRef[Answer]) -> Answer:
        """What the queue says. It may just be started again, for which the head is needed."""
        while True:
            try:
                return ray.get(call, timeout=ANSWER_SECONDS)
            except GetTimeoutError:
                self._head.answers()

    def _end_silent(self, snapshot: Snapshot) -> None:
        for call, member in list(self._members.items()):
            if member.name in snapshot.silent:
                del self._members[call]
                ray.kill(member.actor)

    def _say_what_is_missing(self, snapshot: Snapshot) -> None:
        """A cluster without room for the workers must not look like a run that hangs."""
        now = time.monotonic()
        if snapshot.workers >= len(self._members):
            self._short_since = now
        if now - self._short_since < self._patience:
            return
        self._short_since, self._patience = now, 2 * self._patience
        free, whole = _cpus(ray.available_resources), _cpus(ray.cluster_resources)
        self._say(
            f"{snapshot.workers} of {len(self._members)} workers are ready: each needs one CPU, "
            f"and {free:.0f} of {whole:.0f} are free"
        )


def _death(error: RayError) -> tuple[str, ErrorCode | None]:
    """How a worker died, and what a row is rejected with that was the reason."""
    if isinstance(error, RayActorError) and error.preempted:
        return "died with its node, which was taken away", None
    said = str(error)
    if isinstance(error, OutOfMemoryError) or "OUT_OF_MEMORY" in said or "low on memory" in said:
        return "was ended by Ray: its node ran low on memory", ErrorCode.MEMORY_EXCEEDED
    return "died", ErrorCode.WORKER_CRASHED


def _cpus(resources: Callable[[], dict[str, float]]) -> float:
    return resources().get("CPU", 0.0)

"""The queue with thousands of simulated workers that die, fall silent, come back or dawdle.

    python infra/bench/queue_scale.py --shards 1000000 --workers 2000 --seed 1

The queue is the real one, its clock is simulated. Publishing is once only, as on a disk. At the end
every shard must be published, and counted, once; the figures say what a call costs and whether that
changes as the run goes on, and what memory plan and queue take. `--ray` measures, on this machine,
what a call costs the queue's process when it comes through Ray.
"""

from __future__ import annotations

import argparse
import json
import pickle
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final, ParamSpec, TypeVar

import psutil

from promptmill.schemas.run import Totals
from promptmill.schemas.shard import InputCompression, InputFile, InputKind, Shards
from promptmill.workers.leases import Lease, Order, RowRange, Work
from promptmill.workers.queue import LEASE_SECONDS, JobQueue
from promptmill.workers.work import wait_seconds

P = ParamSpec("P")
R = TypeVar("R")

ROWS: Final = 100_000
"""Of a shard."""
SHARD_SECONDS: Final = 12.0
"""What a shard takes a worker, give or take a half."""
LOAD_SECONDS: Final = 5.0
POLL_SECONDS: Final = 0.2
DEATHS, SILENCES, STRAGGLERS = 0.004, 0.002, 0.002
"""Shares of the attempts that end by death, in silence, or take `SLOWNESS` times as long."""
SLOWNESS: Final = 40.0
TENTHS: Final = 10
CALLERS: Final = 100


@dataclass(slots=True, eq=False)
class Worker:
    """One that works, or a zombie whose lease has run out."""

    name: str
    lease: Lease | None = None
    ends: float = 0.0
    fate: str = "works"
    waits: int = 0


@dataclass(slots=True)
class Meter:
    """Calls and processor seconds, by tenth of the run."""

    calls: list[int] = field(default_factory=lambda: [0] * TENTHS)
    seconds: list[float] = field(default_factory=lambda: [0.0] * TENTHS)
    tenth: int = 0

    def __call__(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Make a call and count it."""
        start = time.process_time()
        answer = call(*args, **kwargs)
        self.seconds[self.tenth] += time.process_time() - start
        self.calls[self.tenth] += 1
        return answer

    def microseconds(self, tenth: int) -> float:
        """Of a call, on average."""
        return 1e6 * self.seconds[tenth] / max(1, self.calls[tenth])


class Simulation:
    """A run from its first lease to its last.

    Args:
        shards: the plan.
        workers: how many there are; the dead and the silent are replaced.
        seed: decides everything that happens.
    """

    def __init__(self, shards: Shards, workers: int, seed: int) -> None:
        self._chance = random.Random(seed)
        self._now = 0.0
        self.queue = JobQueue(Work(shards), now=lambda: self._now)
        self._events: list[tuple[float, int, Worker]] = []
        self._order = 0
        self._zombies: dict[str, Worker] = {}
        self.published = bytearray(len(shards))
        self.meter = Meter()
        self.seen: Counter[str] = Counter()
        self._born = 0
        for _ in range(workers):
            self._start()

    def run(self) -> None:
        """To the end of the run, or to its failure."""
        next_poll = 0.0
        while True:
            at, _, worker = heappop(self._events)
            while next_poll <= at:
                self._now = max(self._now, next_poll)
                if self._poll():
                    return
                next_poll += POLL_SECONDS
            self._now = max(self._now, at)
            self._act(worker)

    def _poll(self) -> bool:
        """What the driver does; whether the run is over."""
        seen = self.meter(self.queue.snapshot)
        assert seen.failure is None, seen.failure
        self.meter.tenth = min(TENTHS - 1, TENTHS * seen.shards_done // seen.shards)
        self.seen["second attempts"] += sum("tries it, too" in note for note in seen.notes)
        for name in seen.silent:
            self._start()
            self._later(self._zombies.pop(name), self._chance.expovariate(1 / LEASE_SECONDS))
        return seen.finished

    def _act(self, worker: Worker) -> None:
        if worker.lease is None:
            self._ask(worker)
        elif worker.fate == "silent":
            self._come_back(worker, worker.lease)
        elif worker.fate == "dies" and self._now >= worker.ends:
            self.seen["deaths"] += 1
            self.meter(self.queue.lost, worker.name, "died")
            self._start()
        elif self._now < worker.ends:
            if self.meter(self.queue.renew, worker.lease.id):
                self._next_sign(worker, worker.lease)
            else:
                self._ask(worker)
        else:
            self._finish(worker, worker.lease)
            self._ask(worker)

    def _ask(self, worker: Worker) -> None:
        answer = self.meter(self.queue.lease, worker.name)
        if answer is Order.STOP:
            return
        if answer is Order.WAIT:
            worker.lease = None
            self._later(worker, wait_seconds(worker.waits))
            worker.waits += 1
            return
        assert isinstance(answer, Lease)
        worker.lease, worker.waits = answer, 0
        assert self.meter(self.queue.begin, answer.id, self._rows(answer), Totals())
        takes = SHARD_SECONDS * self._chance.uniform(0.5, 1.5)
        lot = self._chance.random()
        worker.fate = "works"
        if lot < DEATHS:
            worker.fate, takes = "dies", takes * self._chance.random()
        elif lot < DEATHS + SILENCES:
            worker.fate = "silent"
            self._zombies[worker.name] = worker
            return
        elif lot < DEATHS + SILENCES + STRAGGLERS:
            self.seen["stragglers"] += 1
            takes *= SLOWNESS
        worker.ends = self._now + takes
        self._next_sign(worker, answer)

    def _come_back(self, zombie: Worker, lease: Lease) -> None:
        """A worker that was cut off; its machine has no other worker by now."""
        self.seen["silences"] += 1
        if self._chance.random() < 0.5:
            assert not self.meter(self.queue.begin, lease.id, self._rows(lease), Totals())
        else:  # it had published before it could say so
            self._publish(lease)

    def _finish(self, worker: Worker, lease: Lease) -> None:
        rows = RowRange(lease.shard.first_row, lease.shard.first_row + 1)
        half = Totals(rows_in=ROWS // 2, rows_ok=ROWS // 2, lines=ROWS // 2)
        if self.meter(self.queue.begin, lease.id, rows, half) and self.meter(
            self.queue.begin, lease.id, None, half + half
        ):
            self._publish(lease)

    def _publish(self, lease: Lease) -> None:
        self.published[lease.shard.index] = 1
        totals = Totals(rows_in=ROWS, rows_ok=ROWS, lines=ROWS)
        self.meter(self.queue.commit, lease.id, lease.shard.index, totals)

    def _rows(self, lease: Lease) -> RowRange:
        return RowRange(lease.shard.first_row, lease.shard.first_row + 1024)

    def _next_sign(self, worker: Worker, lease: Lease) -> None:
        self._later(worker, max(0.0, min(lease.sign_of_life, worker.ends - self._now)))

    def _start(self) -> None:
        self._born += 1
        self._later(Worker(f"w{self._born}"), LOAD_SECONDS * self._chance.random())

    def _later(self, worker: Worker, seconds: float) -> None:
        self._order += 1
        heappush(self._events, (self._now + seconds, self._order, worker))


def make_plan(count: int) -> Shards:
    """So many shards of 1 GB, a hundred to a file."""
    files = tuple(
        InputFile(f"/in/{n}.jsonl", f"{n}.jsonl", InputKind.JSONL, InputCompression.NONE, 100 << 30)
        for n in range(-(-count // 100))
    )
    shards = Shards(files)
    for n in range(count):
        at = n % 100
        shards.append(n // 100, at << 30, (at + 1) << 30, at * ROWS, ROWS, 0)
    return shards


def figures(count: int, workers: int, seed: int) -> dict[str, object]:
    """Run a simulation and check it."""
    memory = psutil.Process().memory_info
    before = memory().rss
    shards = make_plan(count)
    planned = memory().rss
    run = Simulation(shards, workers, seed)
    queued = memory().rss
    start = time.process_time()
    run.run()
    seen = run.queue.snapshot()
    assert all(run.published), "a shard is missing"
    assert seen.totals.rows_ok == count * ROWS, "a shard is counted twice or not at all"
    meter = run.meter
    calls = sum(meter.calls)
    return {
        "shards": count,
        "workers": workers,
        "seed": seed,
        **run.seen,
        "calls": calls,
        "calls per shard": round(calls / count, 2),
        "µs per call, first tenth": round(meter.microseconds(0), 2),
        "µs per call, last tenth": round(meter.microseconds(TENTHS - 1), 2),
        "plan MB": round((planned - before) / 1e6, 1),
        "plan pickled MB": round(len(pickle.dumps(shards)) / 1e6, 1),
        "queue MB at its start": round((queued - planned) / 1e6, 1),
        "queue and workers MB at the end": round((memory().rss - queued) / 1e6, 1),
        "simulation CPU s": round(time.process_time() - start, 1),
    }


def ray_figures(calls: int) -> dict[str, object]:
    """What a call through Ray costs the process of the queue."""
    import ray

    from promptmill.workers.environment import quieten_ray

    quieten_ray()
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    actor = ray.remote(JobQueue).options(num_cpus=0).remote(Work(make_plan(100)))
    lease = ray.get(actor.lease.remote("w"))
    pid = next(
        p
        for p in psutil.Process().children(recursive=True)
        if "ray::JobQueue" in p.name() or "ray::JobQueue" in " ".join(p.cmdline())
    )
    spent = pid.cpu_times()
    for n in range(0, calls, CALLERS):  # as from so many workers at a time
        done = Totals(lines=n, rows_ok=n)
        ray.get([actor.begin.remote(lease.id, RowRange(n, n + 1), done) for _ in range(CALLERS)])
    now = pid.cpu_times()
    ray.shutdown()
    cpu = now.user + now.system - spent.user - spent.system
    return {"calls through Ray": calls, "µs CPU of the queue per call": round(1e6 * cpu / calls)}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--shards", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ray", type=int, metavar="CALLS", help="only calls through Ray")
    options = parser.parse_args()
    found = (
        ray_figures(options.ray)
        if options.ray
        else figures(options.shards, options.workers, options.seed)
    )
    json.dump(found, sys.stdout, indent=1, ensure_ascii=False)
    print()


if __name__ == "__main__":
    main()

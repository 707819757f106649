"""On a real Ray: a worker is killed between any two steps of publishing a shard."""

from __future__ import annotations

import collections
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ParamSpec, TypeVar

import psutil
import pytest

from fleets import run_to_end
from promptmill.pipeline.model.load import load_bundle
from promptmill.pipeline.read.plan import plan_input
from promptmill.schemas.errors import JobError
from promptmill.schemas.options import JobOptions, WorkerRange
from promptmill.workers import shard_files
from promptmill.workers.leases import ShardQueue, Work
from promptmill.workers.local import LocalFleet
from promptmill.workers.output_folder import OutputFolder
from promptmill.workers.render_worker import RemoteQueue
from promptmill.workers.shard_job import ShardJob
from promptmill.workers.work import Worker, WorkerSetup

P, R = ParamSpec("P"), TypeVar("R")

ROWS = 6
MOMENTS = ("part", "rejects", "receipt", "commit")
"""Shard n's first attempt dies when it has done the n-th of these."""


def once(marker: Path) -> bool:
    """Whether this is the first call, in any process."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@dataclass(frozen=True)
class MortalSetup(WorkerSetup):
    def load(self, name: str, queue: ShardQueue) -> Worker:
        shard_files.publish = self.deadly(shard_files.publish)
        OutputFolder.add = self.deadly(OutputFolder.add)
        RemoteQueue.commit = self.deadly(RemoteQueue.commit)
        return super().load(name, queue)

    def deadly(self, step: Callable[P, R]) -> Callable[P, R]:
        folder = self.job.folder
        ends = {
            f"part: {folder.part(0)}",
            f"rejects: {folder.rejects(1)}",
            f"receipt: {folder.receipt(2)}",
            "commit: 3",
        }

        def done(*args: P.args, **kwargs: P.kwargs) -> R:
            result = step(*args, **kwargs)
            for end in ends:
                moment, _, what = end.partition(": ")
                if what in map(str, args) and once(Path(f"{folder.root}.{moment}")):
                    os.kill(os.getpid(), signal.SIGKILL)
            return result

        return done


def contents(folder: OutputFolder) -> dict[str, bytes]:
    root = Path(str(folder.root))
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.parent.name != "receipts"
    }


@dataclass(frozen=True)
class Bench:
    """Two runs' worth of folders for one small job; every shard has a reject."""

    root: Path
    options: JobOptions

    @classmethod
    def make(cls, root: Path, model: Path) -> Bench:
        source = root / "in.jsonl"
        with source.open("w") as file:
            for i in range(ROWS * len(MOMENTS)):
                content = 1 if i % ROWS == 2 else f"hello {i}"
                chat = {"id": f"g{i}", "messages": [{"role": "user", "content": content}]}
                file.write(json.dumps(chat) + "\n")
        options = JobOptions(input=(str(source),), output="", model=str(model), rows_per_shard=ROWS)
        return cls(root, options)

    def work(self) -> Work:
        return Work(plan_input(self.options).shards)

    def setup(self, kind: type[WorkerSetup], name: str) -> WorkerSetup:
        folder = OutputFolder(self.root / name, shards=len(MOMENTS))
        folder.create()
        job = ShardJob(folder=folder, options=self.options, metadata={"fingerprint": "f" * 64})
        return kind(load_bundle(self.options), job, datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def bench(tmp_path: Path, tiny_models: Path) -> Bench:
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    return Bench.make(tmp_path, tiny_models / "chatml")


@pytest.mark.ray
def test_a_shard_is_there_once_whenever_its_worker_dies(bench: Bench) -> None:
    from promptmill.workers.fleet import RayFleet

    calm, mortal = bench.setup(WorkerSetup, "calm"), bench.setup(MortalSetup, "mortal")
    local = LocalFleet(bench.work(), calm)
    two = WorkerRange(2, 2)
    fleet = RayFleet(bench.work(), mortal, workers=two, address=None, say=print)
    notes: list[str] = []
    for one in (local, fleet):
        before, snapshot = run_to_end(one)
        notes += [*before, *snapshot.notes]
        assert snapshot.totals.rows_ok == (ROWS - 1) * len(MOMENTS)
        assert snapshot.totals.rows_rejected == len(MOMENTS)
    assert all(Path(f"{mortal.job.folder.root}.{moment}").exists() for moment in MOMENTS)
    assert sum(note.endswith(" died") for note in notes) >= len(MOMENTS) - 1
    for path in mortal.job.folder.temporary.iterdir():
        path.unlink()  # as the driver does
    assert contents(mortal.job.folder) == contents(calm.job.folder)
    assert len([*mortal.job.folder.receipts()]) == len(MOMENTS)


@dataclass(frozen=True)
class PatientSetup(WorkerSetup):
    """Its workers wait before they ask for work."""

    def load(self, name: str, queue: ShardQueue) -> Worker:
        worker = super().load(name, queue)
        while not Path(f"{self.job.folder.root}.go").exists():
            time.sleep(0.1)
        return worker


@pytest.mark.ray
def test_a_queue_that_freezes_ends_the_run(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from promptmill.workers import fleet

    others = psutil.Process().children(recursive=True)  # of tests before, such as a shared head
    setup = bench.setup(PatientSetup, "stuck")
    run = fleet.RayFleet(bench.work(), setup, workers=WorkerRange(1, 1), address=None, say=print)
    run.start()
    try:
        while not run.poll().workers:
            pass
        children = [p for p in psutil.Process().children(recursive=True) if p not in others]
        (queue,) = [p for p in children if "ray::QueueActor" in " ".join(p.cmdline())]
        queue.suspend()
        monkeypatch.setattr(fleet, "QUEUE_SECONDS", 3.0)
        with pytest.raises(JobError, match="queue of this run has not answered for 3 seconds"):
            collections.deque(iter(run.poll, None), maxlen=0)
    finally:
        run.close()
    assert not psutil.wait_procs(children, timeout=60)[1]

"""A row that ends every attempt at its shard is found; the rest of the shard is kept.

The encoder is the real one, but for the poison: a row that raises, or kills its process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.model.load import load_bundle
from promptmill.pipeline.read.plan import plan_input
from promptmill.schemas.options import JobOptions, WorkerRange
from promptmill.schemas.request import EncodedBatch, RawRow
from promptmill.workers.leases import ShardQueue, Work
from promptmill.workers.local import LocalFleet
from promptmill.workers.output_folder import OutputFolder
from promptmill.workers.shard_job import ShardJob
from promptmill.workers.work import Worker, WorkerSetup

ROWS = 30
POISON = b"poison"


class Raising(Encoder):
    def encode(self, rows: Sequence[RawRow]) -> EncodedBatch:
        if any(isinstance(row.data, bytes) and POISON in row.data for row in rows):
            self.fail()
        return super().encode(rows)

    def fail(self) -> None:
        raise BaseException("a panic, as Rust has them")


class Deadly(Raising):
    def fail(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class PoisonedSetup(WorkerSetup):
    kind: type[Encoder] = Raising

    def load(self, name: str, queue: ShardQueue) -> Worker:
        queue.hello(name, f"worker {name}")
        encoder = self.kind(self.bundle, self.job.options, self.clock)
        return Worker(name, queue, encoder, self.job)


def prepare(folder: Path, model: Path, kind: type[Encoder]) -> tuple[Work, PoisonedSetup]:
    texts = [f"hello {i}" for i in range(ROWS)]
    texts[7] = texts[21] = "poison"
    source = folder / "in.jsonl"
    with source.open("w") as file:
        for text in texts:
            file.write(json.dumps({"messages": [{"role": "user", "content": text}]}) + "\n")
    options = JobOptions(
        input=(str(source),), output="", model=str(model), shard_bytes=source.stat().st_size // 2
    )
    plan = plan_input(options)
    out = OutputFolder(folder / "out", shards=len(plan.shards))
    out.create()
    job = ShardJob(folder=out, options=options, metadata={})
    clock = datetime(2026, 1, 1, tzinfo=UTC)
    return Work(plan.shards), PoisonedSetup(load_bundle(options), job, clock, kind)


def check(setup: PoisonedSetup, code: str) -> None:
    receipts = [one for _, one in setup.job.folder.receipts() if one is not None]
    assert len(receipts) > 1
    assert sum(receipt.totals.rows_ok for receipt in receipts) == ROWS - 2
    rejects = [
        json.loads(line)
        for receipt in receipts
        if receipt.rejects is not None
        for line in setup.job.folder.rejects(receipt.shard).read_text().splitlines()
    ]
    assert [line["row_index"] for line in rejects] == [7, 21]
    assert {line["error"]["code"] for line in rejects} == {code}
    assert list(setup.job.folder.temporary.iterdir()) == []


def test_a_row_that_raises(tmp_path: Path, tiny_models: Path) -> None:
    work, setup = prepare(tmp_path, tiny_models / "chatml", Raising)
    fleet = LocalFleet(work, setup)
    fleet.start()
    while not (snapshot := fleet.poll()).finished:
        assert snapshot.failure is None
    fleet.close()
    check(setup, "internal_error")


@pytest.mark.ray
def test_a_row_that_kills_its_worker(tmp_path: Path, tiny_models: Path) -> None:
    from ray import cloudpickle

    from promptmill.workers.fleet import RayFleet

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    work, setup = prepare(tmp_path, tiny_models / "chatml", Deadly)
    fleet = RayFleet(work, setup, workers=WorkerRange(2, 2), address=None, say=print)
    fleet.start()
    try:
        while not (snapshot := fleet.poll()).finished:
            assert snapshot.failure is None
    finally:
        fleet.close()
    # What a killed process had open is left for the driver to clean.
    for path in setup.job.folder.temporary.iterdir():
        path.unlink()
    check(setup, "worker_crashed")

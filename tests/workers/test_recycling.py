"""On a real Ray: workers are replaced when they are worn, and each keeps to one core."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from fleets import run_to_end
from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.model.load import load_bundle
from promptmill.pipeline.read.plan import plan_input
from promptmill.schemas.options import JobOptions, WorkerRange
from promptmill.schemas.request import EncodedBatch, RawRow
from promptmill.workers import work
from promptmill.workers.environment import ONE_THREAD
from promptmill.workers.leases import ShardQueue, Work
from promptmill.workers.output_folder import OutputFolder
from promptmill.workers.shard_job import ShardJob
from promptmill.workers.work import Worker, WorkerSetup

pytestmark = pytest.mark.ray

SHARDS, ROWS = 12, 4
LEAK = 128 << 20


class Leaky(Encoder):
    """Keeps memory with every batch, and refuses to work with more than one thread."""

    leak: list[bytes]

    def encode(self, rows: Sequence[RawRow]) -> EncodedBatch:
        assert {name: os.environ.get(name) for name in ONE_THREAD} == ONE_THREAD
        assert pa.cpu_count() == 1
        self.leak.append(os.urandom(1 << 20) * (LEAK >> 20))
        return super().encode(rows)


@dataclass(frozen=True)
class WornSetup(WorkerSetup):
    rows: int = 1 << 40
    growth: int = 1 << 40

    def encoder(self) -> Encoder:
        made = Leaky(self.bundle, self.job.options, self.clock)
        made.leak = []
        return made

    def load(self, name: str, queue: ShardQueue) -> Worker:
        work.RECYCLE_ROWS, work.RECYCLE_GROWTH = self.rows, self.growth
        return super().load(name, queue)


@pytest.mark.parametrize(
    ("rows", "growth", "workers"),
    [
        (3 * ROWS, 1 << 40, SHARDS // 3),
        (1 << 40, 5 * LEAK // 2, SHARDS // 3),
        (1 << 40, 1 << 40, 1),
    ],
    ids=["rows", "growth", "neither"],
)
def test_a_worn_worker_is_replaced(
    rows: int, growth: int, workers: int, tmp_path: Path, tiny_models: Path
) -> None:
    from ray import cloudpickle

    from promptmill.workers.fleet import RayFleet

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    source = tmp_path / "in.jsonl"
    chats = [
        {"messages": [{"role": "user", "content": f"hello {i}"}]} for i in range(SHARDS * ROWS)
    ]
    source.write_text("".join(json.dumps(chat) + "\n" for chat in chats))
    options = JobOptions(
        input=(str(source),), output="", model=str(tiny_models / "chatml"), rows_per_shard=ROWS
    )
    plan = plan_input(options)
    folder = OutputFolder(tmp_path / "out", shards=len(plan.shards))
    folder.create()
    job = ShardJob(folder=folder, options=options, metadata={"fingerprint": "f" * 64})
    clock = datetime(2026, 1, 1, tzinfo=UTC)
    setup = WornSetup(load_bundle(options), job, clock, rows=rows, growth=growth)
    fleet = RayFleet(Work(plan.shards), setup, workers=WorkerRange(1, 1), address=None, say=print)
    notes, snapshot = run_to_end(fleet)
    receipts = [receipt for _, receipt in folder.receipts() if receipt is not None]
    assert len(receipts) == SHARDS
    assert snapshot.totals.rows_ok == SHARDS * ROWS
    assert len({receipt.worker for receipt in receipts}) == workers
    assert sum(note.endswith("was replaced") for note in notes) == workers - 1
    assert not any("died" in note for note in notes)

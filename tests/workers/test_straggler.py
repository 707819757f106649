"""On a real Ray: the shard of a worker that is alive but far too slow is done by another, too."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fleets import run_to_end
from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.model.load import load_bundle
from promptmill.pipeline.read.plan import plan_input
from promptmill.schemas.options import JobOptions, WorkerRange
from promptmill.schemas.request import EncodedBatch, RawRow
from promptmill.workers.leases import Work
from promptmill.workers.output_folder import OutputFolder
from promptmill.workers.shard_job import ShardJob
from promptmill.workers.work import WorkerSetup

SHARDS = 20
SLOW, LAST = 0, 1
PATIENCE = 240.0


class Slow(Encoder):
    """Its first attempt at one shard waits until another has committed it; one at the next shard
    waits until that first attempt has given up and left nothing behind."""

    folder: OutputFolder

    def encode(self, rows: Sequence[RawRow]) -> EncodedBatch:
        shard = rows[0].row_index
        if shard == SLOW and self.is_first():
            self.until(lambda: self.folder.receipt(SLOW).exists())
        if shard == LAST:
            self.until(lambda: self.folder.receipt(SLOW).exists() and not self.unfinished(SLOW))
        return super().encode(rows)

    def is_first(self) -> bool:
        try:
            Path(f"{self.folder.root}.slow").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def unfinished(self, shard: int) -> list[Path]:
        return list(self.folder.temporary.glob(f".{self.folder.part(shard).name}.*"))

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.05)


@dataclass(frozen=True)
class SlowSetup(WorkerSetup):
    def encoder(self) -> Encoder:
        made = Slow(self.bundle, self.job.options, self.clock)
        made.folder = self.job.folder
        return made


@pytest.mark.ray
def test_the_loser_gives_up_and_its_file_disappears(
    tmp_path: Path, tiny_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray import cloudpickle

    from promptmill.workers.fleet import RayFleet

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setenv("PROMPTMILL_LEASE_SECONDS", "8")  # nothing younger is a straggler
    source = tmp_path / "in.jsonl"
    rows = [{"messages": [{"role": "user", "content": f"hello {i}"}]} for i in range(SHARDS)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = JobOptions(
        input=(str(source),), output="", model=str(tiny_models / "chatml"), rows_per_shard=1
    )
    plan = plan_input(options)
    folder = OutputFolder(tmp_path / "out", shards=len(plan.shards))
    folder.create()
    job = ShardJob(folder=folder, options=options, metadata={"fingerprint": "f" * 64})
    setup = SlowSetup(load_bundle(options), job, datetime(2026, 1, 1, tzinfo=UTC))
    fleet = RayFleet(Work(plan.shards), setup, workers=WorkerRange(3, 3), address=None, say=print)
    notes, snapshot = run_to_end(fleet)
    said = "\n".join([*notes, *snapshot.notes])
    tried = re.search(rf"shard {SLOW} takes worker (\d+) .*: worker (\d+) tries it, too", said)
    assert tried is not None, said
    assert "went silent" not in said
    assert "died" not in said
    receipts = [receipt for _, receipt in folder.receipts()]
    assert len(receipts) == SHARDS
    assert all(receipt is not None and receipt.totals.rows_ok == 1 for receipt in receipts)
    assert len(list((tmp_path / "out").glob("part-*"))) == SHARDS
    assert snapshot.totals.rows_ok == SHARDS

"""A row that ends every attempt at its shard is found; the rest of the shard is kept.

The encoder is the real one, but for the poison: a row that raises, or kills its process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.model.load import load_bundle
from promptmill.pipeline.read.plan import plan_input
from promptmill.schemas.errors import ErrorCode
from promptmill.schemas.options import JobOptions, WorkerRange
from promptmill.schemas.request import EncodedBatch, RawRow
from promptmill.workers.leases import Work
from promptmill.workers.local import LocalFleet
from promptmill.workers.output_folder import OutputFolder
from promptmill.workers.shard_job import ShardJob
from promptmill.workers.trial import Trial
from promptmill.workers.work import WorkerSetup

ROWS = 30
POISON = b"poison"


class Raising(Encoder):
    def encode(self, rows: Sequence[RawRow]) -> EncodedBatch:
        for row in rows:
            if isinstance(row.data, bytes) and POISON in row.data:
                self.fail(row.data)
        return super().encode(rows)

    def fail(self, row: bytes) -> None:
        raise BaseException("a panic, as Rust has them")


class Deadly(Raising):
    def fail(self, row: bytes) -> None:
        if b"raise" in row:
            super().fail(row)
        if b"memory" in row:
            bytearray(1 << 50)
        if b"exit" in row:
            os._exit(3)
        if b"hang" in row:
            time.sleep(10**6)
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class PoisonedSetup(WorkerSetup):
    kind: type[Encoder] = Raising

    def encoder(self) -> Encoder:
        return self.kind(self.bundle, self.job.options, self.clock)


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
    job = ShardJob(folder=out, options=options, metadata={"fingerprint": "f" * 64})
    clock = datetime(2026, 1, 1, tzinfo=UTC)
    return Work(plan.shards), PoisonedSetup(load_bundle(options), job, clock, kind=kind)


def check(setup: PoisonedSetup, code: str, reason: str) -> None:
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
    assert all(reason in line["error"]["message"] for line in rejects)
    assert list(setup.job.folder.temporary.iterdir()) == []


def test_a_row_that_raises(tmp_path: Path, tiny_models: Path) -> None:
    work, setup = prepare(tmp_path, tiny_models / "chatml", Raising)
    fleet = LocalFleet(work, setup)
    fleet.start()
    while not (snapshot := fleet.poll()).finished:
        assert snapshot.failure is None
    fleet.close()
    check(setup, "internal_error", "BaseException")


def test_rows_are_tried_in_a_process_of_their_own(
    tmp_path: Path, tiny_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray import cloudpickle

    (tmp_path / "numpy.py").write_text("raise SystemExit('code of a data folder')")
    monkeypatch.chdir(tmp_path)

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    _, setup = prepare(tmp_path, tiny_models / "chatml", Deadly)
    with Trial(setup, row_seconds=120) as trial:
        assert trial.blame(row("hello")) is None
        assert trial.blame(row("poison raise")) == (ErrorCode.INTERNAL_ERROR, "BaseException")
        assert trial.blame(row("poison memory")) == (ErrorCode.MEMORY_EXCEEDED, "MemoryError")
        assert trial.blame(row("poison exit")) == (ErrorCode.WORKER_CRASHED, "exit code 3")
        assert trial.blame(row("hello")) is None
    with Trial(setup, row_seconds=0.1) as hasty:
        blame = hasty.blame(row("poison hang"))
        assert blame is not None
        assert blame.code is ErrorCode.WORKER_CRASHED
        assert "did not end" in blame.reason


def row(text: str) -> RawRow:
    line = json.dumps({"id": "same", "messages": [{"role": "user", "content": text}]})
    return RawRow("in.jsonl", 0, line.encode())


def kill_the_queue() -> None:
    (queue,) = [
        process
        for process in psutil.Process().children(recursive=True)
        if "ray::QueueActor" in " ".join(process.cmdline())
    ]
    queue.kill()


@pytest.mark.ray
@pytest.mark.parametrize("deaths", [0, 2])
def test_a_row_that_kills_its_worker(deaths: int, tmp_path: Path, tiny_models: Path) -> None:
    """Also where the queue dies after the worker did, and all that it knew of the row is gone."""
    from ray import cloudpickle

    from promptmill.workers.fleet import RayFleet

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    work, setup = prepare(tmp_path, tiny_models / "chatml", Deadly)
    fleet = RayFleet(work, setup, workers=WorkerRange(2, 2), address=None, say=print)
    fleet.start()
    died = restarted = 0
    try:
        while True:
            snapshot = fleet.poll()
            died += sum(note.endswith(" died") for note in snapshot.notes)
            assert snapshot.failure is None
            if snapshot.finished:
                break
            if restarted < min(deaths, died):
                kill_the_queue()
                restarted += 1
    finally:
        fleet.close()
    assert restarted == deaths
    assert 2 <= died <= 2 + deaths, "once for each row: then it is tried in a process of its own"
    # What a killed process had open is left for the driver to clean.
    for path in setup.job.folder.temporary.iterdir():
        path.unlink()
    check(setup, "worker_crashed", "ended by SIGKILL")

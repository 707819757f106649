"""One shard with a real model: the same bytes however it is cut, nothing left when given up."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.model.load import load_bundle
from promptmill.pipeline.read.plan import plan_input
from promptmill.schemas.errors import ErrorCode
from promptmill.schemas.options import JobOptions
from promptmill.schemas.run import Receipt, Totals
from promptmill.schemas.shard import Shard
from promptmill.workers.leases import Blame, Lease, RowRange
from promptmill.workers.output_folder import OutputFolder
from promptmill.workers.shard_files import LeaseLost
from promptmill.workers.shard_job import ShardJob, run_shard

ROWS = 40


class Bench:
    def __init__(self, folder: Path, model: Path) -> None:
        source = folder / "in.jsonl"
        rows = [
            {"id": f"r{i}", "messages": [{"role": "user", "content": f"hello {i}"}]}
            for i in range(ROWS)
        ]
        rows[5] = {"id": "bad", "messages": []}
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.options = JobOptions(input=(str(source),), output="", model=str(model))
        bundle = load_bundle(self.options)
        self.encoder = Encoder(bundle, self.options, datetime(2026, 1, 1, tzinfo=UTC))
        (self.shard,) = plan_input(self.options).shards
        self.root = folder
        self.begun: list[RowRange | None] = []

    def job(self, name: str) -> ShardJob:
        folder = OutputFolder(self.root / name, shards=1)
        folder.create()
        return ShardJob(folder=folder, options=self.options, metadata={"a": "b"})

    def run(self, name: str, lease: Lease) -> Receipt:
        self.begun = []

        def begin(rows: RowRange | None, done: Totals) -> bool:
            self.begun.append(rows)
            return True

        return run_shard(lease, self.encoder, self.job(name), begin)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, tiny_models: Path) -> Bench:
    return Bench(tmp_path_factory.mktemp("shard"), tiny_models / "chatml")


def test_a_receipt_says_what_was_done(bench: Bench) -> None:
    receipt = bench.run("plain", Lease(1, bench.shard))
    folder = bench.job("plain").folder
    assert receipt.totals.rows_ok == ROWS - 1
    assert receipt.totals.lines == ROWS
    assert receipt.part.size == folder.part(0).stat().st_size
    assert receipt.rejects is not None
    (example,) = receipt.examples.values()
    assert (example.source, example.row_index) == ("in.jsonl", 5)
    assert receipt.totals.seconds["tokenize"] > 0
    assert folder.read_receipt(0) == receipt
    assert bench.begun == [RowRange(0, ROWS), None]
    assert list(folder.temporary.iterdir()) == []


def test_care_changes_no_byte(bench: Bench) -> None:
    plain = bench.run("plain", Lease(1, bench.shard))
    careful = bench.run("careful", Lease(2, bench.shard, careful=(RowRange(3, 9),)))
    assert len(bench.begun) == 1 + 6 + 1 + 1
    assert careful.part.sha256 == plain.part.sha256
    assert careful.rejects == plain.rejects


def test_a_blamed_row_is_rejected_untouched(bench: Bench) -> None:
    receipt = bench.run(
        "crashed", Lease(1, bench.shard, guilty={7: Blame(ErrorCode.WORKER_CRASHED, "died")})
    )
    assert receipt.totals.rejects == {"invalid_request": 1, "worker_crashed": 1}
    assert receipt.totals.rows_in == ROWS
    lines = bench.job("crashed").folder.rejects(0).read_text().splitlines()
    (line,) = [found for found in map(json.loads, lines) if found["row_index"] == 7]
    assert line["error"]["code"] == "worker_crashed"
    assert line["request"]["id"] == "r7"


@pytest.mark.parametrize("calls", [0, 1])
def test_a_lost_lease_leaves_nothing(bench: Bench, calls: int) -> None:
    answers = iter([True] * calls + [False])
    job = bench.job(f"lost{calls}")
    with pytest.raises(LeaseLost):
        run_shard(Lease(1, bench.shard), bench.encoder, job, lambda rows, done: next(answers))
    assert [path for path in job.folder.root.rglob("*") if path.is_file()] == []


def test_a_committed_shard_is_not_done_again(bench: Bench) -> None:
    first = bench.run("twice", Lease(1, bench.shard))
    assert bench.run("twice", Lease(2, bench.shard)) == first
    assert bench.begun == []


def test_an_attempt_that_was_cut_off_replaces_nothing(bench: Bench) -> None:
    """It comes back after another attempt has committed other bytes: there a row was to blame."""
    blamed = Lease(2, bench.shard, guilty={7: Blame(ErrorCode.WORKER_CRASHED, "died")})
    committed: list[Receipt] = []

    def begin(rows: RowRange | None, done: Totals) -> bool:
        if rows is None:
            committed.append(bench.run("cut off", blamed))
        return True

    job = bench.job("cut off")
    with pytest.raises(LeaseLost):
        run_shard(Lease(1, bench.shard), bench.encoder, job, begin)
    (receipt,) = committed
    assert job.folder.read_receipt(0) == receipt
    part = job.folder.part(0).read_bytes()
    assert hashlib.sha256(part).hexdigest() == receipt.part.sha256
    assert list(job.folder.temporary.iterdir()) == []


def test_receipts_are_plain_json(bench: Bench) -> None:
    receipt = bench.run("json", Lease(1, bench.shard))
    assert msgspec.json.decode(msgspec.json.encode(receipt), type=Receipt) == receipt
    assert isinstance(bench.shard, Shard)

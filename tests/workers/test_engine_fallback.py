"""A fast engine that turns out to differ: the run goes on with the reference, no row the worse."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq

from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.engines.checked import CheckedEngine
from promptmill.pipeline.engines.pool import reference_pool
from promptmill.pipeline.engines.reference import ReferenceEngine
from promptmill.pipeline.model.load import load_bundle
from promptmill.pipeline.read.plan import plan_input
from promptmill.schemas.options import EngineName, JobOptions
from promptmill.workers.leases import Work
from promptmill.workers.output_folder import OutputFolder
from promptmill.workers.queue import JobQueue
from promptmill.workers.shard_job import ShardJob
from promptmill.workers.work import Worker

CLOCK = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = 40


def ids_of(folder: Path, encoder: Encoder, options: JobOptions) -> tuple[list[object], list[str]]:
    plan = plan_input(options)
    out = OutputFolder(folder, shards=len(plan.shards))
    out.create()
    queue = JobQueue(Work(plan.shards))
    Worker(
        "1",
        queue,
        encoder,
        ShardJob(folder=out, options=options, metadata={"fingerprint": "f" * 64}),
    ).run()
    snapshot = queue.snapshot()
    assert snapshot.finished
    assert snapshot.totals.rows_ok == ROWS
    tables = [pq.read_table(out.part(i)) for i in range(len(plan.shards))]
    ids = [row for table in tables for row in table["prompt_token_ids"].to_pylist()]
    return ids, list(snapshot.notes)


def test_a_mismatch_puts_the_whole_run_on_the_reference(tmp_path: Path, tiny_models: Path) -> None:
    source = tmp_path / "in.jsonl"
    rows = ({"id": f"r{i}", "prompt": f"Hello World {i}"} for i in range(ROWS))
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = JobOptions(
        input=(str(source),), output="", model=str(tiny_models / "chatml"), rows_per_shard=10
    )
    bundle = load_bundle(options)
    plain = options.model_copy(update={"engine": EngineName.TOKENIZERS})
    wanted, _ = ids_of(tmp_path / "plain", Encoder(bundle, plain, CLOCK), plain)

    tokenizer = json.loads(bundle.backend or "")
    tokenizer["normalizer"] = {"type": "Lowercase"}
    other = replace(bundle, backend=json.dumps(tokenizer))
    encoder = Encoder(bundle, options, CLOCK)
    encoder.tokenizer.engine = CheckedEngine(
        ReferenceEngine(reference_pool(other)), ReferenceEngine(reference_pool(bundle)), every=1
    )
    found, notes = ids_of(tmp_path / "differs", encoder, options)
    assert found == wanted
    assert len([note for note in notes if "differed from tokenizers" in note]) == 1

"""Whole runs in one process: totals, resume, refusals, endings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from promptmill.schemas.errors import JobError
from promptmill.schemas.json_types import Json
from promptmill.schemas.options import JobOptions, OnError
from promptmill.schemas.run import RunRecord, RunState
from promptmill.workers.driver_lock import DriverLock
from promptmill.workers.outcome import Outcome
from promptmill.workers.output_folder import OutputFolder
from promptmill.workers.run import run
from promptmill.workers.status import look
from reporters import KeptLines

Row = dict[str, Json]


def chat(row_id: str, text: str, **more: Json) -> Row:
    return {"id": row_id, "messages": [{"role": "user", "content": text}], **more}


def good_rows(count: int) -> list[Row]:
    return [chat(f"g{i}", f"hello world {i}") for i in range(count)]


class Bench:
    """An input, an output folder and a tiny model."""

    def __init__(self, folder: Path, models: Path) -> None:
        self.folder, self.models = folder, models
        self.out = folder / "out"
        self.log = KeptLines()

    def run(self, rows: list[Row] | None = None, **options: object) -> Outcome:
        path = self.folder / "in.jsonl"
        if rows is not None:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.log = KeptLines()
        defaults: dict[str, object] = {
            "input": (str(path),),
            "output": str(self.out),
            "model": str(self.models / "chatml"),
            "local": True,
            "max_model_len": 64,
        }
        return run(JobOptions.model_validate(defaults | options), self.log)

    @property
    def record(self) -> RunRecord:
        record = OutputFolder(self.out).read_record()
        assert record is not None
        return record

    def files(self) -> dict[str, tuple[int, bytes]]:
        return {
            str(p.relative_to(self.out)): (p.stat().st_mtime_ns, p.read_bytes())
            for p in self.out.rglob("*")
            if p.is_file()
        }


@pytest.fixture
def bench(tmp_path: Path, tiny_models: Path) -> Bench:
    return Bench(tmp_path, tiny_models)


def test_totals_add_up(bench: Bench) -> None:
    long = "one two three " * 40
    rows = [
        *good_rows(4),
        chat("cut", long, truncate_prompt_tokens=8),
        chat("long", long),
        {"id": "two", "prompt": ["hello", "world"]},
    ]
    outcome = bench.run(rows, rows_per_shard=3)
    totals = bench.record.totals
    assert totals is not None
    assert (totals.rows_in, totals.rows_ok, totals.rows_rejected) == (8, 7, 1)
    assert totals.rejects == {"prompt_too_long": 1}
    assert (totals.rows_truncated, totals.rows_resumed, totals.duplicate_ids) == (1, 0, 0)
    table = ds.dataset(bench.out).to_table()
    assert table.num_rows == 7
    assert totals.tokens == sum(len(ids) for ids in table["prompt_token_ids"].to_pylist())
    assert outcome.exit_code == 0
    text = "\n".join(outcome.lines)
    assert "8 prompts in, 7 rows out" in text
    assert "in.jsonl row 5" in text
    assert bench.log.lines[-1] == "100 %"
    names = {path.name for path in bench.out.iterdir()}
    assert names == {"_promptmill", *(f"part-0000{i}-of-00003.parquet" for i in range(3))}
    assert {p.name for p in (bench.out / "_promptmill").iterdir()} == {
        "run.json",
        "receipts",
        "rejects",
        "report.html",
    }


def test_the_same_command_again_does_nothing(bench: Bench) -> None:
    bench.run(good_rows(3))
    before = bench.files()
    assert bench.run().lines[0] == "finished already: nothing to do"
    assert bench.files() == before


def test_a_run_that_lost_shards_does_only_those(bench: Bench) -> None:
    bench.run(good_rows(12), rows_per_shard=3)
    before = bench.files()
    receipts = bench.out / "_promptmill" / "receipts"
    (receipts / "00001.json").unlink()
    (receipts / "00003.json").write_text('{"shard": 3')
    (bench.out / "part-00002-of-00004.parquet").unlink()
    bench.run(rows_per_shard=3)
    after = bench.files()
    assert bench.record.totals is not None
    assert bench.record.totals.rows_resumed == 3
    assert any("resumed: 3 rows of 1 shard were" in line for line in bench.log.lines)
    assert after.keys() == before.keys()
    kept = ("part-00000-of-00004.parquet", "_promptmill/receipts/00000.json")
    assert all(after[name] == before[name] for name in kept)
    parts = [name for name in before if name.startswith("part")]
    assert all(after[name][1] == before[name][1] for name in parts)


def test_a_part_of_a_dead_attempt_with_other_bytes_is_replaced(bench: Bench) -> None:
    bench.run(good_rows(3))
    before = bench.files()
    (bench.out / "_promptmill" / "receipts" / "00000.json").unlink()
    (bench.out / "part-00000-of-00001.parquet").write_bytes(b"half")
    (bench.out / "_promptmill" / "rejects" / "00000.jsonl").write_bytes(b"old")
    bench.run()
    after = bench.files()
    assert after.keys() == before.keys()
    assert after["part-00000-of-00001.parquet"][1] == before["part-00000-of-00001.parquet"][1]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda b: b.run(max_model_len=32), "options.max_model_len: 64 -> 32"),
        (lambda b: b.run(model=str(b.models / "bos")), "bos\n  chat template: "),
        (lambda b: b.run(good_rows(2)), "input.in.jsonl.size: "),
    ],
    ids=["option", "model", "input"],
)
def test_another_job_is_refused_with_the_differences(
    bench: Bench, change: Callable[[Bench], Outcome], named: str
) -> None:
    bench.run(good_rows(3))
    before = bench.files()
    with pytest.raises(JobError, match="belongs to another job") as refused:
        change(bench)
    assert named in str(refused.value)
    assert bench.files() == before


def test_foreign_folders_are_left_alone(bench: Bench) -> None:
    bench.out.mkdir()
    (bench.out / "keep.parquet").write_text("mine")
    with pytest.raises(JobError, match=r"keep\.parquet"):
        bench.run(good_rows(1))
    assert [p.name for p in bench.out.iterdir()] == ["keep.parquet"]


def test_a_second_driver_is_refused(bench: Bench) -> None:
    folder = OutputFolder(bench.out)
    other = DriverLock(folder, print)
    other.acquire()
    half = folder.temporary / "of-the-other"
    half.touch()
    with pytest.raises(JobError, match="Another promptmill works on"):
        bench.run(good_rows(1))
    assert half.exists()
    other.release()
    assert bench.run().exit_code == 0
    assert not half.exists()


def test_output_inside_the_input_is_refused(bench: Bench) -> None:
    (bench.folder / "data").mkdir()
    with pytest.raises(JobError, match="lies in the input"):
        bench.run(good_rows(1), input=(str(bench.folder),))
    beside = str(bench.folder / "data" / ".." / "out")
    (bench.folder / "data" / "in.jsonl").write_text(json.dumps(good_rows(1)[0]))
    assert bench.run(input=(str(bench.folder / "data"),), output=beside).exit_code == 0


def test_on_error_fail_stops_and_commits_nothing_of_that_shard(bench: Bench) -> None:
    rows = [*good_rows(2), {"id": "bad", "messages": 1}]
    with pytest.raises(JobError, match=r"--on-error fail: in\.jsonl row 2"):
        bench.run(rows, on_error=OnError.FAIL)
    assert not list(bench.out.glob("part-*"))
    assert bench.run().exit_code == 0
    (bench.out / "_promptmill" / "run.json").write_bytes(
        (bench.out / "_promptmill" / "run.json").read_bytes().replace(b"finished", b"running", 1)
    )
    with pytest.raises(JobError, match="was rejected before"):
        bench.run(on_error=OnError.FAIL)


def test_more_rejects_than_allowed_are_exit_3(bench: Bench) -> None:
    rows = [*good_rows(2), {"id": "bad", "messages": 1}]
    assert bench.run(rows, max_rejects=1).exit_code == 0
    assert bench.run(max_rejects=0).exit_code == 3


def test_a_model_without_a_template_fails_once(bench: Bench) -> None:
    with pytest.raises(JobError, match="chat template"):
        bench.run(good_rows(5), model=str(bench.models / "notemplate"))
    assert not list(bench.out.glob("part-*"))


def test_a_job_whose_rows_all_fail_alike_stops_early(bench: Bench) -> None:
    rows: list[Row] = [{"id": str(i), "messages": 1} for i in range(3000)]
    with pytest.raises(JobError, match=r"first .* prompts all failed with invalid_request"):
        bench.run(rows)
    assert bench.record.state is RunState.RUNNING
    assert "all failed with" in str(bench.record.failure)
    few = [*rows[:999], *good_rows(1)]
    assert bench.run(few, output=str(bench.folder / "few")).exit_code == 0


@pytest.mark.parametrize("what", ["held", "release"])
def test_a_store_that_is_gone_at_the_end_hides_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def gone(lock: DriverLock) -> bool:
        raise JobError("the store is down")

    with monkeypatch.context() as patch:
        patch.setattr(DriverLock, what, gone)
        with pytest.raises(JobError, match="all failed with invalid_request"):
            bench.run([{"id": f"b{i}", "messages": []} for i in range(1200)])
    assert any("the store is down" in line for line in bench.log.lines)


def test_a_resumed_run_keeps_its_clock(bench: Bench) -> None:
    dated = str(bench.models / "dated")
    bench.run(good_rows(4), model=dated, rows_per_shard=2)
    clock, before = bench.record.clock, bench.files()
    (bench.out / "_promptmill" / "receipts" / "00001.json").unlink()
    bench.run(model=dated, rows_per_shard=2)
    assert bench.record.clock == clock
    name = "part-00001-of-00002.parquet"
    assert bench.files()[name][1] == before[name][1]


def test_ids_that_shards_share_are_counted_and_named(bench: Bench) -> None:
    rows = [chat("same", "a"), chat("x", "b"), chat("same", "c"), chat("y", "d")]
    bench.run(rows, rows_per_shard=2)
    assert bench.record.totals is not None
    assert bench.record.totals.duplicate_ids == 1
    assert any("same" in line and "another shard" in line for line in bench.log.lines)


def test_an_input_without_rows_is_a_finished_run(bench: Bench) -> None:
    assert bench.run([]).exit_code == 0
    assert bench.record.totals is not None
    assert bench.record.totals.rows_in == 0


def test_status_of_a_finished_run(bench: Bench) -> None:
    bench.run([*good_rows(2), {"id": "bad", "messages": 1}])
    lines = "\n".join(look(bench.out).lines)
    assert "100 %" in lines
    assert "3 prompts in, 2 rows out" in lines
    assert "1 invalid_request, first in in.jsonl row 2" in lines


def test_the_parts_say_how_they_were_made(bench: Bench) -> None:
    bench.run(good_rows(1))
    metadata = ds.dataset(bench.out).schema.metadata
    assert metadata[b"promptmill.fingerprint"].decode() == bench.record.fingerprint
    assert metadata[b"promptmill.rules"] == b"vllm-0.33"
    assert len(metadata[b"promptmill.tokenizer_sha256"]) == 64


def test_rows_without_anything_to_learn_are_counted_at_the_end(bench: Bench) -> None:
    talk = [{"role": "user", "content": "one two"}, {"role": "assistant", "content": "three"}]
    rows: list[Row] = [
        {"id": "good", "messages": talk},
        {"id": "cut", "messages": talk, "truncate_prompt_tokens": 2, "truncation_side": "right"},
        {"id": "silent", "messages": talk[:1]},
    ]
    text = "\n".join(bench.run(rows, task="train", rows_per_shard=1).lines)
    assert "warning: 2 rows with a mask of zeros only" in text
    assert "warning: 2 rows with a mask of zeros only" in "\n".join(look(bench.out).lines)
    bench.out = bench.folder / "other"
    assert "warning" not in "\n".join(bench.run(rows[:1], task="train").lines)


def test_a_run_that_rejected_every_row_says_so_first(bench: Bench) -> None:
    long = "one two three " * 40
    rows = [chat("a", long), chat("b", long), {"id": "c", "messages": 1}]
    outcome = bench.run(rows)
    assert outcome.exit_code == 0
    assert outcome.lines[0].startswith("3 prompts in, 0 rows out")
    assert outcome.lines[1] == (
        "warning: everything was rejected (3 prompts), most often as prompt_too_long; "
        "--max-rejects 0 makes such a run end with exit code 3"
    )
    assert bench.run(max_rejects=0).exit_code == 3
    bench.out = bench.folder / "other"
    assert "warning" not in "\n".join(bench.run([*rows, *good_rows(1)]).lines)
    bench.out = bench.folder / "nothing"
    assert "warning" not in "\n".join(bench.run([]).lines)


def test_the_way_out_of_a_reject_is_not_cut_off(bench: Bench) -> None:
    text = "\n".join(bench.run([chat("long", "one " * 80)]).lines)
    assert "or raise --max-model-len." in text
    assert "(the report has the whole command)" in text


def test_a_chat_without_a_template_is_named(bench: Bench) -> None:
    with pytest.raises(JobError, match=r"^in\.jsonl row 0 is a chat, and .*give --chat-template"):
        bench.run(good_rows(1), model=str(bench.models / "notemplate"))

"""What the report of a run says, and that none of it can do anything."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pyarrow.dataset as ds
import pytest
import typer
from typer.testing import CliRunner

from command import CLI
from promptmill.pipeline.reuse import BLOCK
from promptmill.schemas.json_types import Json
from promptmill.schemas.options import JobOptions
from promptmill.workers.cli.options import takes_job
from promptmill.workers.output_folder import OutputFolder
from promptmill.workers.report import write_report
from promptmill.workers.report.command import rerun_command
from promptmill.workers.report.gather import Activity, Ending, gather
from promptmill.workers.report.page import render_page
from promptmill.workers.report.view import view, working_seconds

MODEL = str(Path(__file__).resolve().parents[2] / "static" / "demo" / "model")
Promptmill = Callable[..., subprocess.CompletedProcess[str]]


class Elements(HTMLParser):
    """The elements of a page and the text outside of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] not in (["script"], ["style"]):
            self.words.append(data)


def test_totals_and_tables(page: Path) -> None:
    text = " ".join(" ".join(Elements(page.read_text()).words).split())
    for said in ("79 prompts in", "74 rows out", "5 rejected", "14 cut", "finished"):
        assert said in text
    for code, count in (("prompt_too_long", 3), ("invalid_request", 2)):
        assert f"{code} {count}" in text
    for side, count in (("left", 10), ("right", 4)):
        assert re.search(rf"\b{side} {count} ", text)
    assert "max_model_len 256" in text
    assert "vllm-0.33" in text


def test_hostile_content_is_inert(page: Path) -> None:
    found = Elements(page.read_text())
    assert found.tags.count("script") == 1
    assert not {"img", "b", "iframe", "link"} & set(found.tags)
    assert not [name for name, _ in found.attributes if name.startswith("on") or name == "src"]
    assert "document.title='taken'" in " ".join(found.words)  # shown, not run
    policy = dict(found.attributes)["content"]
    assert policy is not None


def test_content_only_where_it_was_asked_for(
    page: Path, tmp_path: Path, promptmill: Promptmill
) -> None:
    assert "the river runs" in page.read_text()
    row = {"id": "a", "messages": "a secret"}
    long = {"id": "b", "prompt": "a secret " * 99, "truncate_prompt_tokens": 9}
    (tmp_path / "in.jsonl").write_text(f"{json.dumps(row)}\n{json.dumps(long)}\n")
    arguments = ["run", "-i", str(tmp_path / "in.jsonl"), "-o", str(tmp_path / "out"), "--local"]
    promptmill(*arguments, "--model", MODEL, "--max-model-len", "32")
    report = tmp_path / "out" / "_promptmill" / "report.html"
    assert "secret" not in report.read_text()


def test_the_command_runs_the_rejects_again(reported: Path) -> None:
    record = OutputFolder(reported).read_record()
    assert record is not None
    command = rerun_command(OutputFolder(reported), record)
    script = command.replace("promptmill run", '"$@" run', 1)
    done = subprocess.run(
        ["sh", "-c", script, "sh", *CLI],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    again = OutputFolder(reported.parent / "out-rejects").read_record()
    assert again is not None
    assert again.totals is not None
    assert (again.totals.rows_in, again.totals.rows_rejected) == (5, 5)
    same = {"input", "output"}
    assert {k: v for k, v in again.options.items() if k not in same} == {
        k: v for k, v in record.options.items() if k not in same
    }


def test_the_place_of_a_command_for_a_cluster_is_said(reported: Path) -> None:
    found = gather(OutputFolder(reported))
    assert "promptmill submit" not in render_page(found)
    record = replace(found.record, options={**found.record.options, "address": "auto"})
    assert "promptmill submit in place of" in render_page(replace(found, record=record))


@pytest.mark.parametrize(
    "options",
    [
        {"with_offsets": False, "with_mask": False, "truncate_prompt_tokens": -1},
        {"chat_template": "-{% for m in messages %}\n'{{ m }}'\n{% endfor %}", "with_mask": True},
        {"served_model_name": ["a b", "c"], "limit_mm_per_prompt": {"image": 3}},
        {"chat_template_kwargs": {"a": [1, None, "ü'\""]}, "render_timeout": 0.5},
        {"clock": "2026-01-15T12:00:00+00:00", "task": "train", "columns": "hf"},
        {"text_column": "text", "append_eos": True, "format": "arrow", "on_overlong": "drop"},
    ],
)
def test_options_come_back_from_a_shell(
    reported: Path, tmp_path: Path, options: dict[str, Json]
) -> None:
    folder = OutputFolder(tmp_path / "out")
    record = OutputFolder(reported).read_record()
    assert record is not None
    given = {"input": [f"{folder.rejects(0).parent}/*.jsonl"], "model": "m"}
    job = JobOptions.model_validate(given | {"output": f"{folder.root}-rejects"} | options)
    record = replace(record, options=job.model_dump(mode="json"), directory="")
    line = rerun_command(folder, record)
    jobs: list[JobOptions] = []
    command = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    command.command()(takes_job(jobs.append))
    done = CliRunner().invoke(command, shlex.split(line)[2:])
    assert done.exit_code == 0, done.output
    assert jobs == [job]


def test_prefix_reuse_is_what_a_cache_would_give(reported: Path) -> None:
    """By hand, from the stored ids of all rows; rows that were cut right have their head still."""
    rows = ds.dataset(reported).to_table()["prompt_token_ids"].to_pylist()
    cache: set[tuple[int, ...]] = set()
    shared = 0
    for ids in rows:
        for number in range((len(ids) - 1) // BLOCK):
            key = tuple(ids[: (number + 1) * BLOCK])
            shared += key in cache
            cache.add(key)
    sides = view(gather(OutputFolder(reported))).reuse
    assert sides[0].share == pytest.approx(shared * BLOCK / sum(map(len, rows)))
    assert sides[1].share > sides[0].share / 2


def test_endings(reported: Path) -> None:
    folder = OutputFolder(reported)
    found = gather(folder)
    assert found.ending is Ending.FINISHED
    stopped = replace(found, ending=Ending.STOPPED)
    assert "the same command continues it" in render_page(stopped)
    failed = replace(found, ending=Ending.FAILED, record=replace(found.record, failure="<no disk>"))
    assert "&lt;no disk&gt;" in render_page(failed)
    assert 'http-equiv="refresh"' not in render_page(found)
    assert 'http-equiv="refresh"' in render_page(found, refresh=True)


def test_a_run_that_fails_leaves_its_report(tmp_path: Path, promptmill: Promptmill) -> None:
    rows = [{"id": str(n), "prompt": "hello mill"} for n in range(30)] + [{"id": "x", "prompt": 1}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ["run", "-i", str(tmp_path / "in.jsonl"), "-o", str(tmp_path / "out"), "--local"]
    arguments += ["--model", MODEL, "--rows-per-shard", "10"]
    promptmill(*arguments, "--on-error", "fail", code=1)
    page = (tmp_path / "out" / "_promptmill" / "report.html").read_text()
    text = " ".join(" ".join(Elements(page).words).split())
    assert "failed" in text
    assert "--on-error fail: in.jsonl row 30 was rejected" in text
    assert "3 of 4 shards committed" in text
    assert {p.name for p in (tmp_path / "out" / "_promptmill").iterdir()} == {
        *("run.json", "receipts", "rejects", "report.html")
    }
    promptmill(*arguments)
    page = (tmp_path / "out" / "_promptmill" / "report.html").read_text()
    assert "was rejected:" not in page
    assert "finished" in page


def test_the_command_writes_it_again(
    reported: Path, page: Path, promptmill: Promptmill, tmp_path: Path
) -> None:
    page.unlink()
    said = promptmill("report", str(reported)).stdout.strip()
    assert Path(said) == page
    assert page.exists()
    assert not (reported / "_promptmill" / "tmp").exists()
    assert "holds no promptmill run" in promptmill("report", str(tmp_path), code=1).stderr


def test_pauses_are_no_work() -> None:
    spans = [(0, 2), (1, 3), (10, 11), (10.5, 10.6)]
    activities = [Activity(start, stop, 1, 1) for start, stop in spans]
    assert working_seconds(activities) == 4


def test_a_run_with_many_shards_is_reported_on_small_ground(reported: Path) -> None:
    """The page does not grow with what it is about."""
    found = gather(OutputFolder(reported))
    once = len(render_page(found))
    for _, receipt in OutputFolder(reported).receipts():
        assert receipt is not None
        for _ in range(200):
            found.sums.add(receipt)
    assert len(render_page(found)) < 1.5 * once
    assert write_report(reported)

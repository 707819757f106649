"""The log for machines: every line is JSON, says what it is about, and quotes no row."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from command import CLI
from promptmill.schemas.run import Totals
from promptmill.workers.leases import Snapshot
from promptmill.workers.logs import JsonFormatter, LogFormat, TextFormatter, about, json_line
from promptmill.workers.output_folder import OutputFolder
from promptmill.workers.pace import Pacer
from promptmill.workers.progress import reporter

ROOT = Path(__file__).resolve().parents[2]
SECRET = "my row's own words"


def failed() -> logging.LogRecord:
    try:
        raise ValueError(SECRET)
    except ValueError:
        arguments = ("s3://key:secret@bucket/a.jsonl",)
        return logging.LogRecord(
            "promptmill.x", logging.ERROR, __file__, 1, "%s failed", arguments, sys.exc_info()
        )


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()], ids=["text", "json"])
def test_a_record_says_what_it_is_about_and_quotes_nothing(formatter: logging.Formatter) -> None:
    with about(run="abc"), about(worker="2", shard=7):
        line = formatter.format(failed())
    assert SECRET not in line
    assert "secret" not in line
    assert "ValueError" in line
    assert "in failed" in line
    if isinstance(formatter, JsonFormatter):
        record = json.loads(line)
        assert (record["run"], record["worker"], record["shard"]) == ("abc", "2", 7)
        assert record["level"] == "error"
        assert record["message"] == "s3://***@bucket/a.jsonl failed"
    else:
        assert "(run=abc worker=2 shard=7)" in line
    assert "shard" not in formatter.format(failed())


def test_threads_are_about_different_things() -> None:
    seen: list[str] = []
    with about(shard=1):
        thread = Thread(target=lambda: seen.append(json_line("info", "x")))
        thread.start()
        thread.join()
    assert "shard" not in json.loads(seen[0])


def test_progress_is_numbers() -> None:
    stream = io.StringIO()
    told = reporter(stream, form=LogFormat.JSON)
    totals = Totals(lines=10, rows_in=10, rows_ok=9, rows_rejected=1, tokens=90)
    snapshot = Snapshot(
        totals=totals,
        shards=2,
        shards_done=2,
        workers=1,
        failure=None,
        silent=(),
        notes=(),
        held=(),
    )
    told.say("warning: look at https://user:pw@host/")
    told.finish(snapshot, Pacer(10).pace(snapshot))
    note, progress = map(json.loads, stream.getvalue().splitlines())
    assert (note["level"], note["message"]) == ("warning", "look at https://***@host/")
    assert (progress["event"], progress["percent"], progress["rows_ok"]) == ("progress", 100, 9)


def test_a_run_logs_json_alone(tmp_path: Path) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out"
    row = {"id": "a", "messages": [{"role": "user", "content": SECRET}]}
    source.write_text(json.dumps(row) + "\n" + json.dumps({"id": SECRET, "messages": 1}) + "\n")
    command = [*CLI, "run", "-i", str(source)]
    command += ["-o", str(out), "--model", str(ROOT / "static/demo/model"), "--local"]
    done = subprocess.run([*command, "--log-format", "json"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == ""
    records = [json.loads(line) for line in done.stderr.splitlines()]
    started = OutputFolder(out).read_record()
    assert started is not None
    assert {record["run"] for record in records} == {started.fingerprint[:12]}
    assert "2 prompts in, 1 row out" in done.stderr
    assert SECRET not in done.stderr

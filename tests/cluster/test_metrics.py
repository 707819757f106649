"""What Prometheus would scrape from a real Ray head during and after a run."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from command import CLI
from promptmill.workers.logs import RUN_LENGTH
from promptmill.workers.metrics import COUNTERS, GAUGES
from promptmill.workers.output_folder import OutputFolder
from tests.conftest import ROOT, Head

ROWS = 8000
Samples = dict[tuple[str, str], float]
"""By name and the value of the label beside `run`."""

pytestmark = pytest.mark.ray

SAMPLE = re.compile(r"^ray_(promptmill_\w+)\{(.*)\} (\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')


def scrape(head: Head, run: str) -> Samples:
    """What the run has there."""
    request = urllib.request.Request(head.metrics, headers=head.headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read().decode()
    found: Samples = {}
    for name, labels, value in SAMPLE.findall(text):
        named = dict(LABEL.findall(labels))
        if named.get("run") == run:
            label = COUNTERS[name][1] if name in COUNTERS else None
            found[name, named[label] if label else ""] = float(value)
    return found


def test_what_prometheus_sees_is_what_the_run_did(ray_head: Head, tmp_path: Path) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out"
    with source.open("w") as file:
        for i in range(ROWS):
            body = {"messages": [{"role": "user", "content": f"hello {i} " * 20}]}
            cut = {"truncate_prompt_tokens": 8} if i < 7 else {}
            file.write(json.dumps({"id": f"g{i}", **body, **cut}) + "\n")
        file.write('{"id": "bad", "messages": 1}\n')
    command = [*CLI, "run", "-i", str(source)]
    command += ["-o", str(out), "--model", str(ROOT / "static/demo/model"), "--workers", "1"]
    command += ["--rows-per-shard", "1000", "--address", ray_head.gcs]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=ray_head.environment)
    while_it_ran: set[str] = set()
    while process.poll() is None:  # gauges are gone with the driver
        if (started := OutputFolder(out).read_record()) is not None:
            while_it_ran |= {name for name, _ in scrape(ray_head, started.fingerprint[:RUN_LENGTH])}
        time.sleep(0.2)
    assert process.returncode == 0
    assert while_it_ran >= GAUGES.keys()

    record = OutputFolder(out).read_record()
    assert record is not None
    totals = record.totals
    assert totals is not None
    run = record.fingerprint[:RUN_LENGTH]
    wanted: Samples = {
        ("promptmill_rows_total", "ok"): ROWS,
        ("promptmill_rows_total", "rejected"): 1,
        ("promptmill_rejects_total", "invalid_request"): 1,
        ("promptmill_truncated_rows_total", ""): 7,
        ("promptmill_tokens_total", ""): totals.tokens,
        ("promptmill_read_bytes_total", ""): source.stat().st_size,
        ("promptmill_written_bytes_total", ""): totals.bytes_written,
    }
    for step, seconds in totals.seconds.items():
        if seconds:
            wanted["promptmill_stage_seconds_total", step] = seconds
    end = time.monotonic() + 60
    while missing := _missing(seen := scrape(ray_head, run), wanted):
        assert time.monotonic() < end, missing
        time.sleep(0.5)
    assert {name for name, _ in seen} <= COUNTERS.keys() | GAUGES.keys()


def _missing(seen: Samples, wanted: Samples) -> list[str]:
    """What is not as it should be; seconds are rounded once for every shard."""
    return [
        f"{key}: {seen.get(key)}, not {value}"
        for key, value in wanted.items()
        if abs(seen.get(key, -1.0) - value) > 0.001
    ]

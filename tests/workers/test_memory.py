"""A worker's memory does not grow with its input: a gigabyte of documents, watched."""

from __future__ import annotations

import json
import random
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from command import CLI

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "static" / "demo" / "model"
ROOM = 300 << 20


def write_input(path: Path, size: int) -> int:
    """Documents of 1 to 60 KB, no two alike; the number of rows."""
    chance = random.Random(5)
    words = (ROOT / "infra" / "demo" / "texts.py").read_text(encoding="utf-8").split()
    rows = written = 0
    with path.open("w", encoding="utf-8") as file:
        while written < size:
            text = " ".join(chance.choices(words, k=chance.randrange(150, 9000)))
            written += file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
            rows += 1
    return rows


@pytest.mark.soak
def test_memory_stays_level(tmp_path: Path) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out"
    rows = write_input(source, 1 << 30)
    words = ["run", "-i", str(source), "-o", str(out), "--model", str(MODEL), "--local"]
    options = ["--text-column", "text", "--task", "train", "--max-model-len", "2048"]
    command = [*CLI, *words, *options]
    command += ["--on-overlong", "truncate"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        watched = psutil.Process(process.pid)
        level = highest = 0
        while process.poll() is None:
            time.sleep(0.2)
            try:
                memory = watched.memory_info().rss
            except psutil.NoSuchProcess:
                break
            if not level and any(out.glob("_promptmill/receipts/*.json")):
                level = memory
            highest = max(highest, memory)
    assert process.returncode == 0
    totals = json.loads((out / "_promptmill" / "run.json").read_text())["totals"]
    assert totals["rows_in"] == rows
    assert highest <= level + ROOM, (
        f"{level >> 20} MB after the first shard, {highest >> 20} MB later"
    )

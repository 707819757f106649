"""Runs to report on: made once, read by many tests."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from command import CLI
from promptmill.schemas.json_types import Json

Row = dict[str, Json]
DEMO = Path(__file__).resolve().parents[2] / "static" / "demo"
HOSTILE = "<script>document.title='taken'</script><img src=x onerror=alert(1)>"
LONG = "the river runs past an old mill " * 60


def chat(row_id: str, text: str, **more: Json) -> Row:
    return {"id": row_id, "messages": [{"role": "user", "content": text}], **more}


ROWS: list[Row] = [
    *(chat(f"g{n}", f"hello mill {n} " * (n % 17 + 1)) for n in range(60)),
    *(chat(f"c{n}", LONG, truncate_prompt_tokens=64) for n in range(9)),
    *(chat(f"r{n}", LONG, truncate_prompt_tokens=64, truncation_side="right") for n in range(4)),
    chat(HOSTILE, LONG, truncate_prompt_tokens=32),
    {"id": "bad", "messages": HOSTILE},
    {"id": "worse", "messages": [{"role": "user", "content": HOSTILE}], "max_tokens": HOSTILE},
    *(chat(f"long{n}", LONG) for n in range(3)),
]
HOSTILE_NAME = "<b onclick=x()>&amp;.jsonl"


@pytest.fixture(scope="session")
def promptmill() -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command line, in a process of its own."""

    def call(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        command = [*CLI, *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done

    return call


@pytest.fixture(scope="session")
def reported(
    tmp_path_factory: pytest.TempPathFactory,
    promptmill: Callable[..., subprocess.CompletedProcess[str]],
) -> Path:
    """The output of a finished run over rows of every kind, in shards of 20."""
    folder = tmp_path_factory.mktemp("a run")
    rows = folder / HOSTILE_NAME
    rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    promptmill(
        *("run", "-i", str(rows), "-o", str(folder / "out"), "--model", str(DEMO / "model")),
        *("--local", "--max-model-len", "256", "--rows-per-shard", "20", "--report-content"),
    )
    return folder / "out"


@pytest.fixture(scope="session")
def page(reported: Path) -> Path:
    """Its report."""
    return reported / "_promptmill" / "report.html"

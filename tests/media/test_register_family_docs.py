"""The example of the documentation works as it stands there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from command import CLI
from promptmill.pipeline.media import base
from promptmill.pipeline.media.own_family import family_source, register_source
from promptmill.schemas.errors import JobError

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "static" / "demo"
PAD, ROW_END = 5, 4


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the page's file, a model of that name, and a row."""
    monkeypatch.setattr(base, "_builders", dict(base._builders))
    page = (ROOT / "docs" / "media.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "acme.py").write_text(example, encoding="utf-8")
    shutil.copytree(DEMO / "model", tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    named = {"architectures": ["AcmeVLForConditionalGeneration"], "model_type": "acme_vl"}
    config.write_text(json.dumps({**json.loads(config.read_text()), **named}))
    part = {"type": "image_url", "image_url": {"url": "images/tall.png"}}
    row = {"messages": [{"role": "user", "content": [part]}]}
    (tmp_path / "in.jsonl").write_text(json.dumps(row) + "\n")
    return tmp_path


def test_the_example_of_the_page_runs(acme: Path) -> None:
    words = ["-i", str(acme / "in.jsonl"), "-o", str(acme / "out"), "--model", str(acme / "model")]
    words += ["--allowed-media-root", str(DEMO), "--media-family", str(acme / "acme.py")]
    command = [*CLI, "run", "--local", *words]
    subprocess.run(command, check=True)
    (row,) = pq.read_table(acme / "out" / "part-00000-of-00001.parquet").to_pylist()
    (span,) = row["mm_placeholders"]
    rows, columns = 280 // 14, 112 // 14
    start, stop = span["offset"], span["offset"] + span["length"]
    assert row["prompt_token_ids"][start:stop] == ([PAD] * columns + [ROW_END]) * rows
    assert span["grid"] == [1, rows, columns]
    assert len(span["embed_runs"]) == rows


def test_a_file_that_cannot_be_used_ends_the_job() -> None:
    with pytest.raises(JobError, match=r"--media-family none\.py cannot be read"):
        family_source("none.py")
    with pytest.raises(JobError, match="ZeroDivisionError"):
        register_source("1 / 0\n")

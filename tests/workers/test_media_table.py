"""`plan --media-table` tells what media cost before anything runs."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from promptmill.pipeline.media.expander import Measured
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.media import Modality
from promptmill.schemas.options import JobOptions
from promptmill.workers.cli.app import app
from promptmill.workers.job import resolve_job
from promptmill.workers.media_table import MediaTable, media_table

DEMO = Path(__file__).resolve().parents[2] / "static" / "demo"


def table_of(rows: Path, output: Path, *, most_items: int = 200, **options: object) -> MediaTable:
    given = {"input": [str(rows)], "output": str(output), "model": str(DEMO / "model")}
    job = JobOptions.model_validate({**given, "allowed_media_root": str(DEMO), **options})
    return media_table(resolve_job(job), most_items=most_items)


def chat(*urls: str, kind: str = "image_url") -> str:
    parts = [{"type": kind, kind: {"url": url}} for url in urls]
    return json.dumps({"messages": [{"role": "user", "content": parts}]}) + "\n"


def test_the_command_shows_the_demo_and_writes_nothing(tmp_path: Path) -> None:
    words = ["plan", "-i", str(DEMO / "requests.jsonl"), "-o", str(tmp_path / "out")]
    words += ["--model", str(DEMO / "model"), "--allowed-media-root", str(DEMO), "--media-table"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[1].split() == ["image", "448x112", "1x8x32", "64", "requests.jsonl", "row", "25"]
    assert "24 images: 1,344 tokens, 40 to 64, mean 56.0" in lines
    assert list(tmp_path.iterdir()) == []


def test_each_item_counts_by_itself_and_says_why_it_cannot_be_read(tmp_path: Path) -> None:
    rows = tmp_path / "in.jsonl"
    rows.write_text(
        '{"messages": []}\n'
        + chat("images/wide.png", "images/none.png", "images/tall.png")
        + chat("images/tall.png", kind="audio_url")
        + chat("data:;base64,AAAA")
    )
    table = table_of(rows, tmp_path / "out")
    assert [(line.row_index, line.kind) for line in table.lines] == [
        (1, Modality.IMAGE),
        (1, Modality.IMAGE),
        (1, Modality.IMAGE),
        (2, "row"),
        (3, Modality.IMAGE),
    ]
    wide, none, tall, audio, broken = (line.found for line in table.lines)
    assert isinstance(wide, Measured)
    assert isinstance(tall, Measured)
    assert (wide.tokens, wide.grid, tall.tokens) == (64, (1, 8, 32), 40)
    codes = [error.code for error in (none, audio, broken) if isinstance(error, RowError)]
    assert codes[1:] == [ErrorCode.MEDIA_UNSUPPORTED, ErrorCode.MEDIA_UNREADABLE]
    assert len(codes) == 3
    assert (table.rows, table.rejected) == (4, 1)
    assert "1 media_unreadable" in list(table.text())


def test_a_sample_is_enough(tmp_path: Path) -> None:
    rows = tmp_path / "in.jsonl"
    rows.write_text(chat("images/wide.png", "images/tall.png") * 200)
    table = table_of(rows, tmp_path / "out", most_items=3)
    assert [line.row_index for line in table.lines] == [0, 0, 1]
    assert table.rows < 200

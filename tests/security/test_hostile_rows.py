"""Rows that want out: of their file, of the output folder, into the log."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from command import CLI
from promptmill.schemas.json_types import Json

MODEL = Path(__file__).resolve().parents[2] / "static" / "demo" / "model"
CONTENT, SECRET = "CONTENT-7f3a9c", "SECRET-5e21bb"
NAME = "rows\x1b[31m\n100 % done.jsonl"


def chat(row_id: str, content: Json, **more: Json) -> dict[str, Json]:
    return {"id": row_id, "messages": [{"role": "user", "content": content}], **more}


ROWS: list[Json] = [
    chat("../../../evil", CONTENT),
    chat("/tmp/evil", CONTENT, source="../../../evil", output="/tmp/evil"),
    chat("kind", [{"type": "text", "text": CONTENT}, {"type": "nothing"}]),
    chat("object", {"a": CONTENT}),
    chat("tools", CONTENT, tools=[{"type": "function", "function": {"name": 1}}]),
    chat("template", CONTENT, chat_template="{{ ''.__class__.__mro__ }}" + CONTENT),
    chat("kwargs", CONTENT, chat_template_kwargs={"x": CONTENT}),
    chat("budget", CONTENT, max_tokens=10**9),
    chat("long", f"{CONTENT} " * 20_000),
    chat("file", [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]),
    chat("url", [{"type": "image_url", "image_url": {"url": f"http://u:{SECRET}@127.0.0.1/"}}]),
    chat("python", CONTENT, __reduce__=["os.system", "touch evil"]),
]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run over such rows: where, and all that it said."""
    folder = tmp_path_factory.mktemp("hostile")
    with (folder / NAME).open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in ROWS)
        file.write(f'{{"id": "broken", "messages": "{CONTENT}\n' + "[" * 100_000 + "\n")
    words = ["run", "-i", NAME, "-o", "out", "--model", str(MODEL), "--local"]
    done = subprocess.run(
        [*CLI, *words],
        cwd=folder,
        env={**os.environ, "AWS_SECRET_ACCESS_KEY": SECRET, "HF_TOKEN": SECRET},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder, done.stdout + done.stderr


def test_nothing_is_written_elsewhere(done: tuple[Path, str]) -> None:
    folder, _ = done
    assert {path.name for path in folder.iterdir()} == {NAME, "out"}
    assert not Path("/tmp/evil").exists()
    assert len(list((folder / "out").glob("part-*"))) == 1
    inner = {path.name for path in (folder / "out" / "_promptmill").rglob("*") if path.is_file()}
    assert inner <= {"run.json", "report.html", "00000.json", "00000.jsonl"}


def test_content_and_secrets_are_only_where_rows_are(done: tuple[Path, str]) -> None:
    folder, said = done
    private = folder / "out" / "_promptmill"
    records = [*private.glob("*.json"), *private.glob("*.html"), *private.glob("receipts/*")]
    texts = [said, *(path.read_text() for path in records)]
    assert len(texts) >= 3
    assert not any(CONTENT in text or SECRET in text for text in texts)


def test_names_of_files_cannot_write_lines_of_the_log(done: tuple[Path, str]) -> None:
    _, said = done
    assert "\x1b" not in said
    assert not any(line.startswith("100 % done") for line in said.splitlines())

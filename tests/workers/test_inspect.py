"""`inspect` shows what a run stores."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from promptmill.workers.cli.app import app

TEN = "one two three four five six seven eight nine ten"
ROWS = [
    {"id": "short", "messages": [{"role": "user", "content": "hello <|im_end|>"}]},
    {
        "id": "cut",
        "messages": [{"role": "user", "content": TEN}],
        "truncate_prompt_tokens": 8,
        "truncation_side": "right",
    },
    {"id": "two", "prompt": ["one two", "three"]},
    {"id": "bad", "messages": []},
]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory, tiny_models: Path) -> Path:
    folder = tmp_path_factory.mktemp("inspect")
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    # In a process of its own: a local run bounds the memory of the process that it has.
    words = ["run", "-i", str(folder / "in.jsonl"), "-o", str(folder / "out"), "--with-text"]
    command = [sys.executable, "-m", "promptmill.workers.cli", *words, "--local"]
    subprocess.run([*command, "--model", str(tiny_models / "chatml")], check=True)
    return folder


def inspected(*words: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(app, ["inspect", *words, "--json"])
    assert done.exit_code == 0, done.output
    found: list[dict[str, Any]] = json.loads(done.output)
    return found


def test_a_finished_run_is_read_again_with_its_own_options(run_folder: Path) -> None:
    stored = {
        row["custom_id"]: row
        for part in run_folder.glob("out/part-*.parquet")
        for row in pq.read_table(part).to_pylist()
    }
    for row_id in ("short", "cut", "two"):
        for one in inspected(str(run_folder / "out"), "--id", row_id):
            row = stored[one["custom_id"]]
            assert [token["id"] for token in one["tokens"]] == row["prompt_token_ids"]
            assert [token["offsets"] for token in one["tokens"]] == row["prompt_token_offsets"]
            assert one["prompt"] == row["prompt"]
            assert one["budget"]["expanded_tokens"] == row["original_num_tokens"]
            assert one["budget"]["max_tokens"] == row["max_tokens"]
    assert len(inspected(str(run_folder / "out"), "--id", "two")) == 2


def test_control_tokens_and_cuts_are_told(run_folder: Path, tiny_models: Path) -> None:
    source, model = str(run_folder / "in.jsonl"), str(tiny_models / "chatml")
    (short,) = inspected("-i", source, "--model", model, "--row", "0")
    kinds = {token["piece"]: token["kind"] for token in short["tokens"]}
    assert kinds["<|im_end|>"] == "control"
    (cut,) = inspected("-i", source, "--model", model, "--id", "cut")
    assert cut["budget"]["kept_tokens"] == 8
    assert cut["budget"]["truncated_right"] == cut["budget"]["expanded_tokens"] - 8


def test_a_reject_says_why(run_folder: Path) -> None:
    (bad,) = inspected(str(run_folder / "out"), "--id", "bad")
    assert bad["error"]["code"] == "invalid_request"
    assert bad["tokens"] == []


def test_wrong_calls(run_folder: Path) -> None:
    out = str(run_folder / "out")
    assert CliRunner().invoke(app, ["inspect", out]).exit_code == 2
    missing = CliRunner().invoke(app, ["inspect", out, "--id", "nobody"])
    assert missing.exit_code == 1
    assert "no row" in str(missing.exception)

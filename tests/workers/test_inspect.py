"""`inspect` shows what a run stores."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from command import CLI
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
    command = [*CLI, *words, "--local"]
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
    looked_at = f"in.jsonl ({len(ROWS)} rows)"
    assert f"No row has the id nobody: looked through {looked_at}" in str(missing.exception)
    beyond = CliRunner().invoke(app, ["inspect", out, "--row", "9999"])
    assert f"There is no row 9999 in {looked_at}" in str(beyond.exception)
    other = CliRunner().invoke(app, ["inspect", out, "--row", "0", "--source", "b.jsonl"])
    assert "The input has no file b.jsonl. It has in.jsonl." in str(other.exception)
    both = CliRunner().invoke(app, ["inspect", out, "--id", "short", "--json", "--html", "a.html"])
    assert both.exit_code == 2
    for name, said in (("", " holds no run"), ("/in.jsonl", " holds no run"), ("/x", "x does not")):
        nothing = CliRunner().invoke(app, ["inspect", f"{run_folder}{name}", "--id", "short"])
        assert f"{said}" in str(nothing.exception)
        assert str(nothing.exception).endswith("or an input and a --model.")


def test_an_input_that_is_gone(run_folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run_folder / "out", tmp_path / "out")
    record = copy / "_promptmill" / "run.json"
    record.write_text(record.read_text().replace("/in.jsonl", "/gone.jsonl"))
    done = CliRunner().invoke(app, ["inspect", str(copy), "--row", "0"])
    assert str(done.exception).startswith("The run's input is read again, and is not there. Input ")


def test_options_that_decide_nothing_here_are_taken_and_not_shown(
    run_folder: Path, tiny_models: Path
) -> None:
    shown = CliRunner().invoke(app, ["inspect", "--help"]).output
    assert "--max-model-len" in shown
    assert "--workers" not in shown
    words = ["-i", str(run_folder / "in.jsonl"), "--model", str(tiny_models / "chatml")]
    (one,) = inspected(*words, "-o", "out", "--workers", "3", "--pack", "9", "--row", "0")
    assert one["custom_id"] == "short"


def test_an_input_without_rows(tiny_models: Path, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("")
    words = ["inspect", "-i", str(tmp_path / "in.jsonl"), "--model", str(tiny_models / "chatml")]
    done = CliRunner().invoke(app, [*words, "--row", "0"])
    assert str(done.exception) == "The input has no rows."


def test_a_blank_line(tiny_models: Path, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("\n" + json.dumps(ROWS[0]) + "\n")
    words = ["inspect", "-i", str(tmp_path / "in.jsonl"), "--model", str(tiny_models / "chatml")]
    done = CliRunner().invoke(app, [*words, "--row", "0"])
    assert str(done.exception) == (
        "in.jsonl row 0 is a blank line, which gives no prompt. Name another row."
    )


def test_a_row_of_a_part_by_its_position(run_folder: Path) -> None:
    (part,) = run_folder.glob("out/part-*.parquet")
    for position, row in enumerate(pq.read_table(part).to_pylist()):
        found = inspected(str(part), "--row", str(position))
        assert row["custom_id"] in {one["custom_id"] for one in found}
        assert not any(one["notes"] for one in found)
    beyond = CliRunner().invoke(app, ["inspect", str(part), "--row", "99"])
    assert "has no row 99" in str(beyond.exception)


def test_what_a_run_stored_otherwise_is_told(run_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(run_folder / "out", tmp_path / "out")
    (part,) = (tmp_path / "out").glob("part-*.parquet")
    table = pq.read_table(part)
    ids = table["prompt_token_ids"].to_pylist()
    ids[0][0] += 1
    column = table.schema.get_field_index("prompt_token_ids")
    changed = table.set_column(column, table.field(column), pa.array(ids, table.field(column).type))
    pq.write_table(changed, part)
    (one,) = inspected(str(tmp_path / "out"), "--id", "short")
    assert "are others" in one["notes"][0]
    pq.write_table(table.slice(1), part)
    (one,) = inspected(str(tmp_path / "out"), "--id", "short")
    assert "the run rejected it" in one["notes"][0]


def test_rules_say_where_they_come_from(run_folder: Path, tiny_models: Path) -> None:
    source, model = str(run_folder / "in.jsonl"), str(tiny_models / "chatml")
    words = ("-i", source, "--model", model, "--id")
    (cut,) = inspected(*words, "cut")
    assert cut["rules"][0].startswith("The row's truncate_prompt_tokens=8 keeps 8 of")
    (job,) = inspected(*words, "short", "--truncate-prompt-tokens", "3")
    assert job["rules"][0].startswith("--truncate-prompt-tokens=3 keeps 3 of")
    assert "the tokenizer's is cut" in job["rules"][0]
    (all_of_it,) = inspected(*words, "short", "--on-overlong", "truncate")
    assert "--on-overlong truncate" in all_of_it["rules"][0]
    assert "cuts nothing" in all_of_it["rules"][0]
    (refused,) = inspected(*words, "short", "--max-model-len", "8")
    assert refused["error"]["code"] == "prompt_too_long"
    assert refused["prompt"].startswith("<|im_start|>")
    assert refused["budget"]["rendered_tokens"] > 8
    assert refused["budget"]["kept_tokens"] is None
    (gated,) = inspected(*words, "short", "--max-model-len", "1")
    assert gated["rules"][0].startswith("Character gate")
    assert gated["budget"]["rendered_tokens"] is None


def test_a_row_does_not_steer_the_terminal(tiny_models: Path, tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    text = "\x1b[2J\x07 \u202e \x9b1m"
    source.write_text(json.dumps({"id": f"a{text}", "prompt": f"hello {text}"}) + "\n")
    words = ["inspect", "-i", str(source), "--model", str(tiny_models / "chatml"), "--row", "0"]
    plain = CliRunner().invoke(app, words).output
    assert not set("\x1b\x07\u202e\x9b") & set(plain)
    coloured = CliRunner().invoke(app, words, color=True).output
    assert "\x1b[1m" in coloured
    assert "\x1b[2J" not in coloured
    without = CliRunner().invoke(app, words, color=True, env={"NO_COLOR": "1"}).output
    assert "\x1b" not in without

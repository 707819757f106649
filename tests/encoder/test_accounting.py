"""Broken files, odd JSON, hostile and naughty texts: from reading to writing, no row is lost."""

import csv
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow.parquet as pq
import pytest

from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.read.plan import plan_input
from promptmill.pipeline.read.rows import ShardReader
from promptmill.pipeline.write.parts import PartWriter
from promptmill.pipeline.write.rejects import RejectWriter
from promptmill.schemas.errors import ErrorCode, JobError
from promptmill.schemas.shard import Shard
from promptmill.workers.batches import batches

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Written:
    """What a run wrote, read back."""

    rows: list[Row]
    rejects: list[Row]
    lines: int
    blank_lines: int

    @property
    def codes(self) -> Counter[str]:
        return Counter(line["error"]["code"] for line in self.rejects)


Run = Callable[..., Written]


@pytest.fixture
def run(tiny_encoder: Callable[..., Encoder], tmp_path: Path) -> Run:
    """Rows from files to files; checks that every one of them ends once."""

    def process(*inputs: Path, model: str = "bos", **options: object) -> Written:
        names = tuple(map(str, inputs))
        encoder = tiny_encoder(model, input=names, with_text=True, **options)
        plan = plan_input(encoder.options)
        folder = Path(mkdtemp(dir=tmp_path))
        done = [encode_shard(encoder, shard, folder) for shard in plan.shards]
        written = Written(
            [row for one in done for row in one.rows],
            [line for one in done for line in one.rejects],
            sum(one.lines for one in done),
            sum(one.blank_lines for one in done),
        )
        assert written.lines == plan.rows
        check(written)
        return written

    return process


def encode_shard(encoder: Encoder, shard: Shard, folder: Path) -> Written:
    part, rejects = folder / f"part-{shard.index}", folder / f"rejects-{shard.index}"
    encoder.start_shard()
    lines = blank = 0
    with (
        PartWriter(part, options=encoder.options, metadata={}) as rows_out,
        RejectWriter(rejects) as rejects_out,
    ):
        for batch in batches(ShardReader(shard, encoder.options), most_rows=50):
            done = encoder.encode(batch)
            rows_out.write(done.rows)
            rejects_out.write(done.rejects)
            lines += len(batch)
            blank += done.blank_lines
    found = [json.loads(line) for line in rejects.read_bytes().splitlines()]
    return Written(pq.read_table(part).to_pylist(), found, lines, blank)


def check(written: Written) -> None:
    """Every line is blank, or each of its prompts is a row or a reject."""
    places = Counter(
        (one["source"], one["row_index"], one["prompt_index"])
        for one in (*written.rows, *written.rejects)
    )
    assert set(places.values()) <= {1}
    indexes = Counter((source, row) for source, row, _ in places)
    for (source, row), count in indexes.items():
        assert all((source, row, index) in places for index in range(count))
    assert len(indexes) + written.blank_lines == written.lines
    assert "internal_error" not in written.codes


def strings_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings_in(item)


def hostile_texts(data: Path) -> list[str]:
    """The naughty strings and the injections, whole files among them."""
    files = [*(data / "text").glob("blns*"), *(data / "injection").iterdir()]
    texts: list[str] = []
    for file in sorted(files):
        text = file.read_text(encoding="utf-8")
        texts += [text, *text.split("\n")]
        if file.suffix == ".json":
            texts += strings_in(json.loads(text))
        if file.suffix == ".csv":
            texts += (cell for row in csv.reader(text.splitlines()) for cell in row)
    return list(dict.fromkeys(texts))


def write_rows(path: Path, rows: Sequence[Row]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_json_files_as_lines(run: Run, shared: Path, tmp_path: Path) -> None:
    files = sorted((shared / "data" / "badfiles" / "json").glob("*.json"))
    texts = [file.read_bytes().rstrip(b"\n") for file in files]
    source = tmp_path / "in.jsonl"
    # Each as a row, and each where a prompt, the messages and a whole field would stand.
    frames = (b"%s", b'{"prompt": %s}', b'{"messages": %s}', b'{"prompt": "a", "x": %s}')
    source.write_bytes(b"".join(frame % text + b"\n" for text in texts for frame in frames))
    written = run(source)
    assert written.lines >= len(files) * len(frames)
    assert written.codes.keys() >= {"invalid_json", "invalid_utf8", "lone_surrogate"}
    assert len(written.rows) > 50  # what parses is a field that is handed on


def test_compressed_files(run: Run, shared: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for file in (shared / "data" / "badfiles").glob("[gz]*/*"):
        name = file.name if ".jsonl." in file.name else file.stem + ".jsonl.zst"
        shutil.copyfile(file, folder / name)
    written = run(folder)
    assert written.codes[ErrorCode.UNREADABLE_INPUT] == 2  # the truncated and the invalid one
    assert len(written.rows) > 328  # HumanEval's rows have a prompt


def test_columnar_files(run: Run, shared: Path) -> None:
    done = []
    for file in sorted((shared / "data" / "badfiles" / "parquet").glob("*.parquet")):
        try:
            done.append(run(file))
        except JobError:  # no footer: refused before any row
            assert file.name == "bad_data__PARQUET-1481.parquet"
    assert sum(one.lines for one in done) > 500
    assert not any(one.rows for one in done)  # none has a prompt


@pytest.mark.parametrize("model", ["bos", "strict"])
def test_hostile_texts(run: Run, shared: Path, tmp_path: Path, model: str) -> None:
    texts = hostile_texts(shared / "data")
    chats = [{"messages": [{"role": "user", "content": text}]} for text in texts]
    completions = [{"prompt": text} for text in texts]
    written = run(write_rows(tmp_path / "in.jsonl", [*chats, *completions]), model=model)
    assert written.codes.keys() <= {ErrorCode.EMPTY_PROMPT, ErrorCode.PROMPT_TOO_LONG}
    assert written.codes[ErrorCode.EMPTY_PROMPT] == 1  # an empty completion
    for row in written.rows:
        kind, index = divmod(row["row_index"], len(texts))
        assert texts[index] in row["prompt"] if kind == 0 else texts[index] == row["prompt"]


def test_hostile_texts_as_roles_ids_and_arguments(run: Run, shared: Path, tmp_path: Path) -> None:
    rows = []
    for text in hostile_texts(shared / "data"):
        call = {"type": "function", "function": {"name": text, "arguments": text}}
        user = {"role": "user", "content": [{"type": "text", "text": text}]}
        turns = [user, {"role": "assistant", "tool_calls": [{"id": text, **call}]}]
        rows.append({"custom_id": text, "messages": [{"role": text, "content": "x"}, *turns]})
        rows.append({"id": text + "!", "prompt": "a", "stop": text, text: text})
    written = run(write_rows(tmp_path / "in.jsonl", rows), model="toolargs")
    assert len(written.rows) > len(rows) // 2


def test_rejects_run_again_are_the_same_rejects(run: Run, shared: Path, tmp_path: Path) -> None:
    files = sorted((shared / "data" / "badfiles" / "json").glob("*.json"))
    source = tmp_path / "in.jsonl"
    source.write_bytes(b"".join(b'{"prompt": %s}\n' % file.read_bytes() for file in files))
    first = run(source)
    again = run(write_rows(tmp_path / "rejects.jsonl", first.rejects))
    assert len(again.rejects) == len(first.rejects)
    for one, two in zip(first.rejects, again.rejects, strict=True):
        if one["request"] is not None or "text" in one["raw"]:
            assert two["error"] == one["error"]
        else:  # no text: only its first bytes were kept
            assert "carries no request" in two["error"]["message"]

"""The job that is disturbed: mixed input with rows that are rejected, on the demo model."""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from command import CLI

ROOT: Final = Path(__file__).resolve().parents[2]
MODEL: Final = ROOT / "static" / "demo" / "model"
WORDS: Final = (
    *("the", "quick", "brown", "fox", "jumps", "over", "lazy", "dogs", "—"),
    *("Grüße,", "東京へようこそ,", "Привет", "мир", "🙂"),
)

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Job:
    """An input and the options that decide bytes."""

    inputs: tuple[str, ...]
    options: tuple[str, ...]

    def words(self, out: Path | str, *more: str) -> list[str]:
        """The command line."""
        start = [*CLI, "run", "-o", str(out)]
        inputs = [word for given in self.inputs for word in ("-i", given)]
        return [*start, *inputs, "--model", str(MODEL), *self.options, *more]


def make_job(folder: Path, *, rows: int, shards: int, seed: int = 1) -> Job:
    """Write the input: JSONL, one file of it compressed, and Parquet."""
    chance = random.Random(seed)
    folder.mkdir(parents=True)
    each = max(1, rows // shards)
    with (folder / "a.jsonl").open("w", encoding="utf-8") as file:
        for i in range(rows):
            file.write(_line(chance, f"a{i}") + "\n")
    with gzip.open(folder / "b.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(_line(chance, f"b{i}") + "\n" for i in range(each))
    chats = [_chat(chance, f"c{i}") for i in range(4 * each)]
    pq.write_table(pa.Table.from_pylist(chats), folder / "c.parquet", row_group_size=each)
    options = ("--rows-per-shard", str(each), "--max-model-len", "1024", "--engine", "tokenizers")
    inputs = ("a.jsonl", "b.jsonl.gz", "c.parquet")
    return Job(tuple(str(folder / name) for name in inputs), options)


def _line(chance: random.Random, name: str) -> str:
    kind = chance.random()
    if kind < 0.01:
        return ""
    if kind < 0.02:
        return '{"id": "%s", "messages": [' % name  # noqa: UP031  # braces
    if kind < 0.03:
        return json.dumps({"id": name, "messages": 7})
    if kind < 0.04:
        return json.dumps({"id": name, "prompt": _text(chance, 3000)})
    if kind < 0.06:
        return json.dumps({"id": name, "prompt": [_text(chance, 20), _text(chance, 30)]})
    return json.dumps(_chat(chance, name), ensure_ascii=False)


def _chat(chance: random.Random, name: str) -> Row:
    content = _text(chance, chance.randrange(20, 150))
    return {"id": name, "messages": [{"role": "user", "content": content}]}


def _text(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(WORDS, k=words))

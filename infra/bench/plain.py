"""Peers in one process: the script that people write first, with variations, and the floor.

    python infra/bench/plain.py KIND INPUT OUTPUT MODEL

KIND: ids, offsets, fastokens (ids, with fastokens patched into transformers), or floor. For the
floor MODEL is an Arrow file of finished rows: it reads and parses the input and writes those rows,
which is all that a tool with free rendering and tokenization would still have to do.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

BATCH = 1000

Texts = Callable[[list[dict[str, Any]]], list[str]]


def batches(path: str) -> Iterator[list[dict[str, Any]]]:
    """Parsed rows."""
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - as people write it
        while rows := [json.loads(line) for line in itertools.islice(file, BATCH)]:
            yield rows


def text_of(tokenizer: Any, row: dict[str, Any]) -> str:
    """A document's text, or a chat rendered."""
    if "text" in row:
        return str(row["text"])
    messages = [{**turn, "content": turn.get("content") or ""} for turn in row["messages"]]
    return str(
        tokenizer.apply_chat_template(
            messages, tools=row.get("tools"), tokenize=False, add_generation_prompt=True
        )
    )


def plain(kind: str, source: str, target: str, model: str) -> None:
    """json, apply_chat_template, tokenizer call, pyarrow."""
    if kind == "fastokens":
        import fastokens

        fastokens.patch_transformers()
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    offsets = kind == "offsets"
    columns = {"id": pa.string(), "input_ids": pa.list_(pa.int32())}
    if offsets:
        columns["offset_mapping"] = pa.list_(pa.list_(pa.int32(), 2))
    schema = pa.schema(columns)
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for rows in batches(source):
            texts = [text_of(tokenizer, row) for row in rows]
            found = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=offsets)
            made = {"id": [row["id"] for row in rows], "input_ids": found["input_ids"]}
            if offsets:
                made["offset_mapping"] = found["offset_mapping"]
            writer.write_table(pa.table(made, schema))


def floor(source: str, target: str, finished: str) -> None:
    """Read, parse, write rows that are already made (they are mapped into memory, not read)."""
    with open(source, "rb") as file:  # noqa: PTH123
        decode = msgspec.json.Decoder().decode
        for line in file:
            decode(line)
    with pa.memory_map(finished) as mapped:
        rows = pa.ipc.open_file(mapped).read_all()
        encodings = {
            "prompt_token_ids.list.element": "BYTE_STREAM_SPLIT",
            "prompt_token_offsets.list.element.list.element": "DELTA_BINARY_PACKED",
        }
        pq.write_table(
            rows,
            target,
            compression="zstd",
            compression_level=1,
            use_dictionary=False,
            column_encoding=encodings,
            write_statistics=False,
            row_group_size=1024,
        )


if __name__ == "__main__":
    kind, source, target, model = sys.argv[1:]
    if kind == "floor":
        floor(source, target, model)
    else:
        plain(kind, source, target, model)

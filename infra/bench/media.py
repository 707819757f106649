"""Rows that carry images beside the mere reading of their JSON and base64, in one run.

    python infra/bench/media.py [--model DIR] [--rows 1000] [--side 316]

Every row is a chat with one data: URL of its own: a PNG of noise, some 300 KB at the given side.
Times are CPU seconds of this process, rows come in batches as a worker's do, and each batch goes
through all contenders, whose order rotates. The encoder does all of it: parse, render, tokenize,
size and hash, expand. Reading is what nobody can do without, with the standard library and with
the libraries that we use.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

# Before the libraries are loaded.
os.environ.update(RAYON_NUM_THREADS="1", FASTOKENS_BPE_THREADS="1", TOKENIZERS_PARALLELISM="false")

import msgspec
import pybase64
from PIL import Image

from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.model.load import load_bundle
from promptmill.schemas.options import EngineName, JobOptions
from promptmill.schemas.request import RawRow

BATCH_ROWS: Final = 10
"""What a worker's bound on bytes makes of rows of this size."""
DEMO: Final = Path(__file__).resolve().parents[2] / "static" / "demo" / "model"


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to take a batch; raises where it does not do it whole."""

    name: str
    take: Callable[[Sequence[RawRow]], None]


def rows(count: int, side: int) -> Iterator[list[RawRow]]:
    """Batches of chats with an image each, no two the same."""
    for start in range(0, count, BATCH_ROWS):
        yield [_row(index, side) for index in range(start, min(start + BATCH_ROWS, count))]


def _row(index: int, side: int) -> RawRow:
    file = io.BytesIO()
    noise = Image.frombytes("RGB", (side, side), os.urandom(3 * side * side))
    noise.save(file, "PNG", compress_level=1)
    url = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    parts = [
        {"type": "text", "text": f"Picture {index}: what do you see?"},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    body = {"custom_id": str(index), "messages": [{"role": "user", "content": parts}]}
    return RawRow("bench", index, json.dumps(body).encode())


def reading(name: str, loads: Callable[[bytes], Any], decode: Callable[[str], bytes]) -> Contender:
    """JSON and base64 alone."""

    def take(batch: Sequence[RawRow]) -> None:
        for row in batch:
            assert isinstance(row.data, bytes)
            url = loads(row.data)["messages"][0]["content"][1]["image_url"]["url"]
            assert decode(url[url.index(",") + 1 :])

    return Contender(f"reading: {name}", take)


def encoding(model: Path) -> Contender:
    """The whole encoder."""
    options = JobOptions(
        input=("rows",), output="none", model=str(model), engine=EngineName.TOKENIZERS
    )
    encoder = Encoder(load_bundle(options), options, datetime.now(UTC))

    def take(batch: Sequence[RawRow]) -> None:
        made = encoder.encode(batch)
        assert len(made.rows) == len(batch), made.rejects
        assert all(len(row.spans) == 1 for row in made.rows)

    return Contender("encoder", take)


def main() -> None:
    """Print seconds and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=DEMO)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--side", type=int, default=316)
    given = parser.parse_args()
    contenders = [
        reading("json, base64", json.loads, lambda text: base64.b64decode(text, validate=True)),
        reading(
            "msgspec, pybase64",
            msgspec.json.decode,
            lambda text: pybase64.b64decode(text, validate=True),
        ),
        encoding(given.model),
    ]
    seconds = dict.fromkeys((contender.name for contender in contenders), 0.0)
    for batch in rows(given.rows, given.side):
        for contender in contenders:
            start = time.process_time()
            contender.take(batch)
            seconds[contender.name] += time.process_time() - start
        contenders = [*contenders[1:], contenders[0]]
    whole = seconds["encoder"]
    for name, cpu in seconds.items():
        print(f"{name:40} {cpu:7.3f} s, {1000 * cpu / given.rows:6.3f} ms a row, {whole / cpu:.2f}")


if __name__ == "__main__":
    main()

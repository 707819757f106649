"""Texts to compare tokenizers on: those of files, and random ones."""

from __future__ import annotations

import json
import lzma
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

BATCH_CHARS = 1_000_000

_CODES = re.compile(r"\b[0-9A-F]{4,6}(?: [0-9A-F]{4,6})*\b")


def read(path: Path, spellings: Sequence[str]) -> Iterator[str]:
    """The texts of a file: `.json`, `.jsonl` (also `.xz`), or lines.

    The turns of a conversation are joined by control spellings. Code points that lines spell in
    hexadecimal, as the files of Unicode do, are texts, too.
    """
    open_text = lzma.open if path.suffix == ".xz" else open
    with open_text(path, "rt", encoding="utf-8") as lines:
        if path.suffix == ".json":
            yield from json.load(lines)
            return
        for line in lines:
            if path.suffix == ".txt":
                yield line
                yield from map(_spelled, _CODES.findall(line))
            else:
                yield _text_of(json.loads(line), spellings)


def _spelled(codes: str) -> str:
    return "".join(map(_character, (int(code, 16) for code in codes.split())))


def _text_of(row: dict[str, object], spellings: Sequence[str]) -> str:
    if "text" in row:
        return str(row["text"])
    if "paras" in row:
        return "\n".join(row["paras"])
    return "".join(
        f"{spellings[i % len(spellings)] if spellings else ''}{turn['role']}\n"
        f"{turn.get('content') or turn}\n"
        for i, turn in enumerate(row["messages"])
    )


def fuzz(count: int, spellings: Sequence[str]) -> Iterator[str]:
    """Random strings: all of Unicode, mixed with control spellings, blanks and words."""
    dice = random.Random(1)
    common = [
        *spellings[:30],
        *" \n\t.,'0129aAeE",
        "  ",
        "\r\n",
        " the",
        "don't",
        "中",
        "é",
        "\u0301",
    ]
    for _ in range(count):
        length = dice.randint(0, 30)
        yield "".join(
            dice.choice(common) if dice.random() < 0.6 else _any_character(dice)
            for _ in range(length)
        )


def _any_character(dice: random.Random) -> str:
    return _character(dice.randrange(0x110000 if dice.random() < 0.2 else 0x3000))


def _character(code: int) -> str:
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else chr(code)


def batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Texts in batches of about a million characters."""
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= BATCH_CHARS:
            yield batch
            batch, size = [], 0
    yield batch

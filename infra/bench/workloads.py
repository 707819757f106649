"""What the speed comparison runs on: files of unique rows, from a folder of data or generated.

`w1` are conversations, `w2` long documents, `w3` agent sessions (every turn repeats its history).
"""

from __future__ import annotations

import itertools
import json
import lzma
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

FILES: Final = {"w1": "w1_10k.jsonl.xz", "w2": "w2_300.jsonl.xz", "w3": "w3_agent.jsonl.xz"}

_ALPHABETS: Final = (
    "etaoinshrdlucmfwypvbgkqjxz",
    "оеаинтсрвлкмдпуяызьбгчйхжшюцщэфъё",
    "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生",
)


def lines(name: str, folder: Path | None) -> Iterator[str]:
    """The rows of a workload as JSON lines, without end; generated where the folder has none.

    Behind the last row of a file its rows come again, with other ids and with every text turned
    round: second half first.
    """
    path = None if folder is None else folder / FILES[name]
    if path is None or not path.is_file():
        yield from (json.dumps(row, ensure_ascii=False) for row in _generated(name))
        return
    with lzma.open(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n") for line in file]
    yield from rows
    for copy in itertools.count(1):
        yield from (json.dumps(_turned(json.loads(row), copy), ensure_ascii=False) for row in rows)


def _turned(row: dict[str, Any], copy: int) -> dict[str, Any]:
    """A row unlike the one it is made of; the system prompt and tools stay, as between sessions."""
    row["id"] = f"{row['id']}-{copy}"
    if "text" in row:
        row["text"] = _turn(row["text"], copy)
    for message in row.get("messages", ()):
        if message["role"] != "system" and isinstance(message.get("content"), str):
            message["content"] = _turn(message["content"], copy)
    return row


def _turn(text: str, copy: int) -> str:
    """The part from a space in the middle on, then the part before it."""
    place = text.find(" ", len(text) * copy // (copy + 1))
    return text if place < 0 else f"{text[place + 1 :]} {text[:place]}"


def write(name: str, folder: Path | None, rows: int, target: Path) -> None:
    """Write the first rows as a file."""
    with target.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in itertools.islice(lines(name, folder), rows))


def _generated(name: str) -> Iterator[dict[str, object]]:
    dice = random.Random(name)
    for number in itertools.count():
        if name == "w2":
            yield {"id": f"d{number}", "text": _text(dice, dice.randint(4_000, 30_000))}
        elif name == "w3":
            yield from _session(dice, number)
        else:
            turns = 2 * dice.randint(1, 5) + 1
            yield {"id": f"c{number}", "messages": _turns(dice, turns)}


def _session(dice: random.Random, number: int) -> Iterator[dict[str, object]]:
    policy = {"role": "system", "content": _text(random.Random("policy"), 1200)}
    parameters = {"type": "object", "properties": {"id": {"type": "string"}}}
    tools = [
        {"type": "function", "function": {"name": f"tool_{i}", "parameters": parameters}}
        for i in range(14)
    ]
    history = _turns(dice, 41)
    for stop in range(1, len(history), 2):
        messages = [policy, *history[:stop]]
        yield {"id": f"s{number}-t{stop}", "messages": messages, "tools": tools}


def _turns(dice: random.Random, count: int) -> list[dict[str, str]]:
    roles = itertools.cycle(("user", "assistant"))
    return [
        {"role": next(roles), "content": _text(dice, dice.randint(10, 200))} for _ in range(count)
    ]


def _text(dice: random.Random, words: int) -> str:
    """Words that no other text has, most of them in the first alphabet."""
    made = []
    for _ in range(words):
        alphabet = _ALPHABETS[0] if dice.random() < 0.8 else dice.choice(_ALPHABETS)
        made.append("".join(dice.choices(alphabet, k=dice.randint(1, 9))))
        made.append("\n" if dice.random() < 0.05 else " ")
    return "".join(made)

"""Who is compared: promptmill, the least that any tool must do, and what people use today."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
OURS: Final = "ours: ids + offsets, local"
IDS: Final = "ours: ids, local"


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to do the work."""

    name: str
    command: Sequence[str]
    """With {source}, {target}, {model} and {finished} to be filled in."""
    quick: bool = False
    """Whether it gets as many rows as ours."""
    source: str = "rows"
    """What it reads: rows, or rendered texts."""
    everywhere: bool = True
    """Whether it runs on every workload; what mainly starts processes runs on the first only."""


def _ours(name: str, *options: str, everywhere: bool = True) -> Contender:
    start = [sys.executable, "-m", "promptmill.workers.cli", "run", "-i", "{source}"]
    start += ["-o", "{target}", "--model", "{model}", "--max-model-len", "1048576"]
    command = [*start, "--max-rejects", "0", *options]
    return Contender(name, command, quick=True, everywhere=everywhere)


def _plain(name: str, kind: str, *, quick: bool = False) -> Contender:
    command = [sys.executable, str(HERE / "plain.py"), kind, "{source}", "{target}", "{model}"]
    return Contender(name, command, quick=quick)


def _framework(name: str, kind: str, source: str = "rows") -> Contender:
    program = str(HERE / "frameworks.py")
    command = [sys.executable, program, kind, "{source}", "{target}", "{model}"]
    return Contender(name, command, source=source, everywhere=False)


FLOOR: Final = Contender(
    "floor: read, parse, write the same columns",
    [sys.executable, str(HERE / "plain.py"), "floor", "{source}", "{target}", "{finished}"],
    quick=True,
)
CONTENDERS: Final = (
    _ours(OURS, "--local"),
    _ours(IDS, "--local", "--no-offsets"),
    FLOOR,
    _plain("plain script, ids + offsets", "offsets"),
    _plain("plain script, ids", "ids"),
    _plain("plain script, ids, fastokens patched in", "fastokens", quick=True),
    # Small shards: both workers must start in the small run, too.
    *(
        _ours(
            f"ours: ids + offsets, Ray, {workers} worker{'s' * (workers > 1)}",
            *("--workers", str(workers), "--rows-per-shard", "500"),
            everywhere=False,
        )
        for workers in (1, 2)
    ),
    _framework("datasets.map, ids", "datasets"),
    _framework("Ray Data map_batches, ids", "ray-data"),
    _framework("datatrove tokens (text rendered before)", "datatrove", "rendered"),
)

"""One run at full load for many minutes: memory and CPU per row must not grow.

    python infra/bench/soak.py [--minutes 20] [--workers N] [--engine tokenizers] [--model DIR]

A short run measures what a row costs; an input that lasts the wanted time is written by it. Of the
long run, the first quarter of the time is compared with the last: CPU per row (from the receipts)
and the memory of the workers (looked at every second), without the first minute, in which caches
fill. Exit code 1 when one of them has grown by more than 5 %.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import psutil

ROOT: Final = Path(__file__).resolve().parents[2]
LIMIT: Final = 1.05
WARM_UP_SECONDS: Final = 60.0
SAMPLE_ROWS: Final = 4000
SHARD_ROWS: Final = 1000
LOOK_SECONDS: Final = 1.0


class Look(NamedTuple):
    """What was seen at one moment."""

    at: float
    """Seconds since the epoch."""
    value: float


def main() -> int:
    """Measure, report, judge."""
    args = _arguments()
    with tempfile.TemporaryDirectory(prefix="soak", dir=args.folder) as name:
        folder = Path(name)
        sample, _ = _run(folder / "sample", SAMPLE_ROWS, args)
        rows = int(args.minutes * 60 * args.workers / _mean(sample))
        print(f"{_mean(sample) * 1000:.2f} ms of CPU a row: {rows:,} rows for {args.minutes:g} min")
        shutil.rmtree(folder / "sample")
        costs, memory = _run(folder / "long", rows, args)
    minutes = (costs[-1].at - costs[0].at) / 60
    print(f"{rows:,} rows in {len(costs)} shards, {minutes:.1f} min from first to last shard")
    warm = costs[0].at + min(WARM_UP_SECONDS, minutes * 60 / 8)
    good = _judge("CPU per row", costs, warm, costs[-1].at, 1e3, "ms")
    return 0 if _judge("memory of workers", memory, warm, costs[-1].at, 2**-20, "MB") & good else 1


def _judge(
    what: str, looks: Sequence[Look], start: float, end: float, scale: float, unit: str
) -> bool:
    """Print the quarters of a time; whether the last is near the first."""
    length = (end - start) / 4
    quarters = [
        _mean([look for look in looks if start + i * length <= look.at <= start + (i + 1) * length])
        for i in range(4)
    ]
    grown = quarters[3] / quarters[0]
    shown = ", ".join(f"{value * scale:.2f}" for value in quarters)
    print(f"{what} by quarters: {shown} {unit}; last against first {grown - 1:+.1%}")
    return grown <= LIMIT


def _mean(looks: Sequence[Look]) -> float:
    return sum(look.value for look in looks) / len(looks)


def _run(folder: Path, rows: int, args: argparse.Namespace) -> tuple[list[Look], list[Look]]:
    """CPU seconds a row by shard, in order of time; bytes of the workers, added up, by moment."""
    folder.mkdir()
    source, out = folder / "in.jsonl", folder / "out"
    _write(source, rows)
    words = [sys.executable, "-m", "promptmill.workers.cli", "run", "-i", str(source)]
    words += ["-o", str(out), "--model", args.model, "--engine", args.engine]
    words += ["--workers", str(args.workers), "--rows-per-shard", str(SHARD_ROWS)]
    memory = []
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            if taken := _workers_memory(process.pid):
                memory.append(Look(time.time(), taken))
            time.sleep(LOOK_SECONDS)
    if process.returncode:
        raise SystemExit(f"the run ended with {process.returncode}")
    costs = []
    for path in (out / "_promptmill" / "receipts").iterdir():
        receipt = json.loads(path.read_text())
        cost = receipt["totals"]["cpu_seconds"] / receipt["totals"]["rows_in"]
        costs.append(Look(path.stat().st_mtime, cost))
    return sorted(costs), memory


def _workers_memory(pid: int) -> int:
    taken = 0
    with suppress(psutil.Error):
        for process in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.Error):
                if process.cmdline()[:1] and process.cmdline()[0].startswith("ray::RenderWorker"):
                    taken += process.memory_info().rss
    return taken


def _write(path: Path, rows: int) -> None:
    """Chats of some 100 words, no two alike."""
    chance = random.Random(11)
    words = (ROOT / "infra" / "demo" / "texts.py").read_text(encoding="utf-8").split()
    with path.open("w", encoding="utf-8") as file:
        for i in range(rows):
            text = " ".join(chance.choices(words, k=chance.randrange(20, 180)))
            row = {"id": str(i), "messages": [{"role": "user", "content": text}]}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--engine", default="tokenizers", help="a faster one needs more disk")
    parser.add_argument("--model", default=str(ROOT / "static" / "demo" / "model"))
    parser.add_argument("--folder", help="where the input and the output go for a while")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

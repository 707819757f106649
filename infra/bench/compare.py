"""promptmill beside what people use today: CPU per row of the whole process tree, in one run.

    python infra/bench/compare.py --model DIR [--data FOLDER] [--workload w1 w2 w3] [--json FILE]

Everything runs on fewer and on more rows, each several times, of which the least CPU counts: the
difference of the two sizes is what a row costs (marginal), the rest is start-up. Peers get fewer
rows, because they would take hours. Native thread pools have one thread, as in our workers.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import workloads
from measure import Cost, Failed

HERE: Final = Path(__file__).parent
ENV: Final = {
    "RAYON_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "PYTHONWARNINGS": "ignore",
}
OURS: Final = "ours: ids + offsets, local"
IDS: Final = "ours: ids, local"
SIZES: Final = {"w1": (2000, 10_000), "w2": (60, 300), "w3": (100, 460)}
PEER_SIZES: Final = {"w1": (400, 1600), "w2": (15, 60), "w3": (40, 160)}


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


def _ours(name: str, *options: str) -> Contender:
    start = [sys.executable, "-m", "promptmill.workers.cli", "run", "-i", "{source}"]
    start += ["-o", "{target}", "--model", "{model}", "--max-model-len", "1048576"]
    return Contender(name, [*start, "--max-rejects", "0", *options], quick=True)


def _peer(
    name: str, program: str, kind: str, source: str = "rows", *, quick: bool = False
) -> Contender:
    command = [sys.executable, str(HERE / program), kind, "{source}", "{target}", "{model}"]
    return Contender(name, command, source=source, quick=quick)


FLOOR: Final = Contender(
    "floor: read, parse, write the same columns",
    [sys.executable, str(HERE / "plain.py"), "floor", "{source}", "{target}", "{finished}"],
    quick=True,
)
CONTENDERS: Final = (
    _ours(OURS, "--local"),
    _ours(IDS, "--local", "--no-offsets"),
    _ours("ours: ids + offsets, Ray, 1 worker", "--workers", "1"),
    _ours("ours: ids + offsets, Ray, 2 workers", "--workers", "2"),
    FLOOR,
    _peer("plain script, ids + offsets", "plain.py", "offsets"),
    _peer("plain script, ids", "plain.py", "ids"),
    _peer("plain script, ids, fastokens patched in", "plain.py", "fastokens", quick=True),
    _peer("datasets.map, ids", "frameworks.py", "datasets"),
    _peer("Ray Data map_batches, ids", "frameworks.py", "ray-data"),
    _peer("datatrove tokens (text rendered before)", "frameworks.py", "datatrove", "rendered"),
)


@dataclass(slots=True)
class Result:
    """A contender on a workload."""

    workload: str
    name: str
    rows: tuple[int, int]
    costs: list[Cost] = field(default_factory=list)
    failed: str | None = None

    @property
    def marginal(self) -> float | None:
        """CPU seconds of one more row."""
        if len(self.costs) < 2 or self.rows[1] <= self.rows[0]:
            return None
        return (self.costs[1].cpu - self.costs[0].cpu) / (self.rows[1] - self.rows[0])


class Bench:
    """Runs contenders on one workload.

    Args:
        workload: its name.
        data: where its files are; None: generated.
        model: a model folder.
        folder: for everything that is written.
        repeats: how often each size runs.
    """

    def __init__(
        self, workload: str, data: Path | None, model: Path, folder: Path, repeats: int
    ) -> None:
        self._workload, self._data, self._model, self._folder = workload, data, model, folder
        self._repeats = repeats

    def run(self, contender: Contender) -> Result:
        """Both sizes; a failure ends it and is told."""
        wanted = (SIZES if contender.quick else PEER_SIZES)[self._workload]
        sources = [self._source(rows, contender.source) for rows in wanted]
        result = Result(self._workload, contender.name, (sources[0][1], sources[1][1]))
        for source, _ in sources:
            try:
                costs = [self._measure(contender, source) for _ in range(self._repeats)]
                result.costs.append(min(costs, key=lambda cost: cost.cpu))
            except Failed as error:
                result.failed = str(error)
                break
        return result

    def _source(self, rows: int, kind: str) -> tuple[Path, int]:
        path = self._folder / f"{self._workload}-{rows}.jsonl"
        count = workloads.write(self._workload, self._data, rows, path)
        if kind == "rows":
            return path, count
        rendered = path.with_suffix(".rendered.jsonl")
        program = [sys.executable, str(HERE / "frameworks.py"), "render"]
        subprocess.run([*program, path, rendered, self._model], check=True, capture_output=True)
        return rendered, count

    def _measure(self, contender: Contender, source: Path) -> Cost:
        name = "".join(c if c.isalnum() else "-" for c in contender.name)
        target = self._folder / f"{name}-{source.stem}"
        shutil.rmtree(target, ignore_errors=True)
        target.unlink(missing_ok=True)
        places = {
            "source": source,
            "target": target,
            "model": self._model,
            "finished": self._folder / f"{source.stem}.arrow",
        }
        command = [part.format(**places) for part in contender.command]
        if "promptmill.workers.cli" in command and self._workload == "w2":
            command += ["--text-column", "text"]
        cost = self._in_process_of_its_own(command, target.with_suffix(".log"))
        if contender.name == OURS:
            _as_arrow(target, places["finished"])
        return cost

    def _in_process_of_its_own(self, command: Sequence[str], log: Path) -> Cost:
        cache = {"PROMPTMILL_CACHE": str(self._folder / "cache")}
        done = subprocess.run(
            [sys.executable, str(HERE / "measure.py"), str(log), *command],
            env={**os.environ, **ENV, **cache},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Failed(done.stderr.strip().splitlines()[-1])
        cpu, wall, memory = done.stdout.split()
        return Cost(float(cpu), float(wall), int(memory))


def _as_arrow(parts: Path, target: Path) -> None:
    """Our finished rows as a file that can be mapped, for the floor."""
    rows = pq.ParquetDataset(parts).read()
    with pa.ipc.new_file(str(target), rows.schema) as writer:
        writer.write_table(rows)


def table(results: Sequence[Result]) -> Iterator[str]:
    """The figures as lines of Markdown."""
    yield "| workload | | rows | start-up, s | CPU ms per row | to ours | to ours, ids | MB |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    by_name = {(r.workload, r.name): r.marginal for r in results}
    for one in results:
        rows = f"{one.rows[0]:,}, {one.rows[1]:,}"
        if (cost := one.marginal) is None:
            yield f"| {one.workload} | {one.name} | {rows} | {one.failed} | | | | |"
            continue
        start = one.costs[0].cpu - cost * one.rows[0]
        ratios = [_ratio(cost, by_name.get((one.workload, name))) for name in (OURS, IDS)]
        memory = max(c.memory for c in one.costs) / 1e6
        yield (
            f"| {one.workload} | {one.name} | {rows} | {start:.1f} | {cost * 1e3:.3f} | "
            f"{' | '.join(ratios)} | {memory:.0f} |"
        )


def _ratio(cost: float, ours: float | None) -> str:
    return f"{cost / ours:.1f}x" if ours else ""


def main() -> None:
    """Parse the command line, run, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="a folder with tokenizer.json")
    parser.add_argument("--data", type=Path, help="where the workloads lie; else generated")
    parser.add_argument("--workload", nargs="+", choices=list(SIZES), default=["w1"])
    parser.add_argument("--only", default="", help="contenders that this pattern finds, and ours")
    parser.add_argument("--repeats", type=int, default=2, help="the first fills caches: 2 or more")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(prefix="promptmill-bench-") as folder:
        for workload in options.workload:
            bench = Bench(workload, options.data, options.model, Path(folder), options.repeats)
            for contender in CONTENDERS:
                if contender.name in (OURS, IDS) or re.search(options.only, contender.name):
                    results.append(bench.run(contender))
                    print(list(table(results))[-1], flush=True)
    print("\n" + "\n".join(table(results)))
    if options.json:
        machine = {"machine": platform.platform(), "python": platform.python_version()}
        figures = [{**asdict(one), "marginal": one.marginal} for one in results]
        options.json.write_text(json.dumps({**machine, "results": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()

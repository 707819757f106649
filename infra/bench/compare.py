"""promptmill beside what people use today: CPU per row of the whole process tree, in one run.

    python infra/bench/compare.py --model DIR [--data FOLDER] [--workload w1 w2 w3] [--json FILE]

Everything runs on fewer and on more rows; the difference of the two sizes is what a row costs
(marginal), the rest is start-up. It goes round and round, one run of each at a time, until
`--rounds` are done or `--minutes` over, and of each the least CPU counts: the ratios come from
the same minutes, whatever else the machine does. Peers get fewer rows, because they would take
hours. Native thread pools have one thread, as in our workers. Table and JSON are written after each
run, so that nothing is lost when it is stopped.
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
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

import workloads
from contenders import CONTENDERS, IDS, OURS, Contender
from measure import Cost, Failed

HERE: Final = Path(__file__).parent
ENV: Final = {
    "RAYON_NUM_THREADS": "1",
    "FASTOKENS_BPE_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "PYTHONWARNINGS": "ignore",
}
SIZES: Final = {"w1": (2000, 10_000), "w2": (60, 900), "w3": (100, 2400)}
PEER_SIZES: Final = {"w1": (400, 1600), "w2": (15, 60), "w3": (40, 160)}
QUICK_TIMES: Final = 2
"""Runs in a round of what takes little time: start-up is most of that, and varies."""
LONGEST: Final = 240
"""Seconds that one run may take."""


@dataclass(slots=True)
class Result:
    """A contender on a workload."""

    workload: str
    name: str
    rows: list[int] = field(default_factory=lambda: [0, 0])
    """Fewer and more."""
    runs: list[list[Cost]] = field(default_factory=lambda: [[], []])
    """Of each size."""
    failed: str | None = None

    @property
    def best(self) -> list[Cost] | None:
        """The run of each size that took the least CPU."""
        if not all(self.runs):
            return None
        return [min(runs, key=lambda cost: cost.cpu) for runs in self.runs]

    @property
    def marginal(self) -> float | None:
        """CPU seconds of one more row."""
        if self.best is None or self.rows[1] <= self.rows[0]:
            return None
        return (self.best[1].cpu - self.best[0].cpu) / (self.rows[1] - self.rows[0])


class Bench:
    """Runs contenders on one workload.

    Args:
        workload: its name.
        data: where its files are; None: generated.
        model: a model folder.
        folder: for everything that is written.
        sizes: rows of ours and of quick peers, and of the others.
        end: of `time.monotonic`; what still runs then is ended.
    """

    def __init__(
        self,
        workload: str,
        data: Path | None,
        model: Path,
        folder: Path,
        sizes: Sequence[tuple[int, int]],
        end: float,
    ) -> None:
        self._workload, self._data, self._model, self._folder = workload, data, model, folder
        self._sizes, self._end = sizes, end

    def run(self, contender: Contender, result: Result) -> None:
        """Both sizes once more; a failure is told and ends it for good."""
        for index, rows in enumerate(self._sizes[not contender.quick]):
            try:
                source, result.rows[index] = self._source(rows, contender.source), rows
                result.runs[index].append(self._measure(contender, source))
            except Failed as error:
                result.failed = str(error)
                return

    def _source(self, rows: int, kind: str) -> Path:
        path = self._folder / f"{self._workload}-{rows}.jsonl"
        if not path.exists():
            workloads.write(self._workload, self._data, rows, path)
        if kind == "rows":
            return path
        rendered = path.with_suffix(".rendered.jsonl")
        if not rendered.exists():
            program = [sys.executable, str(HERE / "frameworks.py"), "render"]
            self._run([*program, str(path), str(rendered), str(self._model)], path)
        return rendered

    def _measure(self, contender: Contender, source: Path) -> Cost:
        # A folder of its own for each run, so that no cache of an earlier one helps.
        folder = self._folder / "run"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        target = folder / "out"
        places = {
            "source": source,
            "target": target,
            "model": self._model,
            "finished": self._folder / f"{source.stem}.arrow",
        }
        command = [part.format(**places) for part in contender.command]
        if "promptmill.workers.cli" in command and self._workload == "w2":
            command += ["--text-column", "text"]
        cost = self._run(command, target)
        if contender.name == OURS and not places["finished"].exists():
            _as_arrow(target, places["finished"])
        return cost

    def _run(self, command: Sequence[str], target: Path) -> Cost:
        """A measurement in a process of its own."""
        cache = {"PROMPTMILL_CACHE": str(self._folder / "cache")}
        log = target.with_suffix(".log")
        seconds = max(1.0, min(LONGEST, self._end - time.monotonic()))
        done = subprocess.run(
            [sys.executable, str(HERE / "measure.py"), str(log), str(seconds), *command],
            env={**os.environ, **ENV, **cache},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Failed((done.stderr.strip().splitlines() or ["no reason given"])[-1])
        cpu, wall, memory = done.stdout.split()
        return Cost(float(cpu), float(wall), int(memory))


def _as_arrow(parts: Path, target: Path) -> None:
    """Our finished rows as a file that can be mapped, for the floor."""
    rows = pq.ParquetDataset(parts).read()
    with pa.ipc.new_file(str(target), rows.schema) as writer:
        writer.write_table(rows)


def table(results: Sequence[Result]) -> Iterator[str]:
    """The figures as lines of Markdown."""
    yield (
        "| workload | | rows | start-up, s | CPU ms per row | to ours | to ours, ids | "
        "wall, s | MB |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    by_name = {(r.workload, r.name): r.marginal for r in results}
    for one in results:
        rows = f"{one.rows[0]:,}, {one.rows[1]:,}"
        if one.best is None or (cost := one.marginal) is None:
            yield f"| {one.workload} | {one.name} | {rows} | {one.failed or '...'} | | | | | |"
            continue
        start = one.best[0].cpu - cost * one.rows[0]
        ratios = [_ratio(cost, by_name.get((one.workload, name))) for name in (OURS, IDS)]
        wall, memory = min(c.wall for c in one.runs[1]), max(c.memory for c in one.best) / 1e6
        yield (
            f"| {one.workload} | {one.name} | {rows} | {start:.1f} | {cost * 1e3:.3f} | "
            f"{' | '.join(ratios)} | {wall:.1f} | {memory:.0f} |"
        )


def _ratio(cost: float, ours: float | None) -> str:
    return f"{cost / ours:.1f}x" if ours else ""


class Report:
    """Keeps the JSON and the table up to date."""

    def __init__(self, path: Path | None, results: Sequence[Result]) -> None:
        self._path, self._results = path, results

    def write(self) -> None:
        """The figures so far."""
        if self._path is None:
            return
        machine = {
            "machine": platform.platform(),
            "cores": os.cpu_count(),
            "load": os.getloadavg(),
            "python": platform.python_version(),
        }
        figures = [{**asdict(one), "marginal": one.marginal} for one in self._results]
        text = json.dumps({**machine, "results": figures}, indent=1)
        self._path.write_text(text + "\n")
        self._path.with_suffix(".md").write_text("\n".join(table(self._results)) + "\n")


def main() -> None:
    """Parse the command line, run, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="a folder with tokenizer.json")
    parser.add_argument("--data", type=Path, help="where the workloads lie; else generated")
    parser.add_argument("--workload", nargs="+", choices=list(SIZES), default=["w1"])
    parser.add_argument("--only", default="", help="contenders that this pattern finds, and ours")
    parser.add_argument("--rounds", type=int, default=3, help="the first fills caches: 2 or more")
    parser.add_argument("--minutes", type=float, default=14, help="what still runs then is ended")
    parser.add_argument("--shrink", type=int, default=1, help="take one row in so many, to try it")
    parser.add_argument("--json", type=Path, help="write the figures here, and a .md beside it")
    options = parser.parse_args()
    chosen = [
        (workload, contender)
        for workload in options.workload
        for contender in CONTENDERS
        if (contender.everywhere or workload == options.workload[0])
        and (contender.name in (OURS, IDS) or re.search(options.only, contender.name))
    ]
    results = [Result(workload, contender.name) for workload, contender in chosen]
    report, end = Report(options.json, results), time.monotonic() + 60 * options.minutes
    took = [0.0] * len(chosen)
    with tempfile.TemporaryDirectory(prefix="promptmill-bench-") as name:
        for _ in range(options.rounds):
            for index, ((workload, contender), result) in enumerate(
                zip(chosen, results, strict=True)
            ):
                start = time.monotonic()
                if result.failed or start + took[index] > end:
                    continue
                sizes = [
                    (few // options.shrink, many // options.shrink)
                    for few, many in (SIZES[workload], PEER_SIZES[workload])
                ]
                bench = Bench(workload, options.data, options.model, Path(name), sizes, end)
                for _ in range(QUICK_TIMES if contender.quick else 1):
                    bench.run(contender, result)
                took[index] = time.monotonic() - start
                report.write()
                print([*table(results)][2 + index], flush=True)
    print("\n" + "\n".join(table(results)))


if __name__ == "__main__":
    main()

"""Runs on a Ray of their own, disturbed in every way that a command line sees."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import psutil
import pytest

from command import CLI, Command
from promptmill.workers.output_folder import OutputFolder

pytestmark = pytest.mark.ray

ROWS, SHARDS = 20_000, 100


class Bench:
    def __init__(self, folder: Path, model: Path) -> None:
        self.folder, self.model = folder, model
        self.source = folder / "in.jsonl"
        with self.source.open("w") as file:
            for i in range(ROWS):
                text = f"hello world {i} " + "one two three four " * 40
                row = {"id": f"g{i}", "messages": [{"role": "user", "content": text}]}
                file.write(json.dumps(row) + "\n")
        self.started = 0

    def start(self, out: str, *options: str) -> Command:
        self.started += 1
        arguments = ["run", "-i", str(self.source), "-o", str(self.folder / out)]
        arguments += ["--model", str(self.model), "--rows-per-shard", str(ROWS // SHARDS)]
        return Command([*CLI, *arguments, *options], self.folder / f"log{self.started}")

    def receipts(self, out: str) -> int:
        return len(list((self.folder / out / "_promptmill" / "receipts").glob("*.json")))

    def check_whole(self, out: str) -> None:
        """Everything is there, once, with the bytes of an undisturbed run in one process."""
        folder, calm = self.folder / out, self.folder / "calm"
        record = OutputFolder(folder).read_record()
        assert record is not None
        assert record.totals is not None
        assert record.totals.rows_ok == ROWS
        names = sorted(path.name for path in folder.iterdir())
        assert names == sorted(path.name for path in calm.iterdir())
        assert len(names) == SHARDS + 1
        for name in names:
            if name != "_promptmill":
                assert (folder / name).read_bytes() == (calm / name).read_bytes()
        inner = {path.name for path in (folder / "_promptmill").iterdir()}
        assert inner == {"run.json", "receipts", "rejects", "report.html"}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, tiny_models: Path) -> Bench:
    bench = Bench(tmp_path_factory.mktemp("fleet"), tiny_models / "chatml")
    calm = bench.start("calm", "--local")
    assert calm.wait() == 0, calm.text
    return bench


def test_killed_workers_are_replaced(bench: Bench) -> None:
    run = bench.start("workers", "--workers", "2")
    run.until(lambda: len(_worker_pids(run)) == 2 and bench.receipts("workers"))
    for pid in _worker_pids(run):
        os.kill(pid, signal.SIGKILL)
    assert run.wait() == 0, run.text
    assert len(re.findall(r"^worker \d+ died$", run.text, re.M)) == 2
    assert len(_worker_pids(run)) > 2
    assert len(run.text.splitlines()) < 100
    assert "Traceback" not in run.text
    bench.check_whole("workers")


def test_the_queue_dies_and_workers_are_asked_to_go(bench: Bench) -> None:
    run = bench.start("queue", "--workers", "1:2")
    run.until(lambda: len(_worker_pids(run)) == 2 and bench.receipts("queue"))
    _of(run, "ray::QueueActor").kill()
    run.until(lambda: "the queue died" in run.text)
    os.kill(_worker_pids(run)[0], signal.SIGTERM)
    assert run.wait() == 0, run.text
    assert "asked to go" in run.text
    assert "died" not in run.text.replace("the queue died", "")
    assert "Traceback" not in run.text
    bench.check_whole("queue")


def test_the_queue_of_a_large_plan_dies(bench: Bench) -> None:
    run = bench.start("large", "--workers", "2", "--rows-per-shard", "8")
    run.until(lambda: bench.receipts("large") >= 2)
    _of(run, "QueueActor").kill()
    assert run.wait() == 0, run.text
    assert "the queue died" in run.text
    assert "core_worker" not in run.text
    record = OutputFolder(bench.folder / "large").read_record()
    assert record is not None
    assert record.totals is not None
    assert record.totals.rows_ok == ROWS


def test_a_head_that_freezes_does_not_keep_the_run_from_ending(bench: Bench) -> None:
    run = bench.start("head", "--workers", "2")
    run.until(lambda: bench.receipts("head"))
    ours = psutil.Process(run.process.pid).children(recursive=True)
    _of(run, "gcs_server").suspend()
    assert run.wait() == 0, run.text
    bench.check_whole("head")
    gone, alive = psutil.wait_procs(ours, timeout=60)
    assert len(gone) > 3
    assert not alive


def test_killed_and_stopped_drivers_lose_nothing(bench: Bench) -> None:
    killed = bench.start("drivers", "--workers", "2")
    killed.until(lambda: bench.receipts("drivers") >= 2)

    killed.process.kill()
    killed.wait()
    before = bench.receipts("drivers")

    stopped = bench.start("drivers", "--workers", "2")
    stopped.until(lambda: _worker_pids(stopped) and bench.receipts("drivers") > before)
    stopped.process.terminate()
    assert stopped.wait() == 128 + signal.SIGTERM, stopped.text
    assert "taking over" in stopped.text
    assert not (bench.folder / "drivers" / "_promptmill" / "driver.json").exists()
    assert not (bench.folder / "drivers" / "_promptmill" / "tmp").exists()

    last = bench.start("drivers", "--workers", "1")
    assert last.wait() == 0, last.text
    assert "resumed: " in last.text
    assert "100 %" in last.text
    bench.check_whole("drivers")


def test_a_frozen_worker_is_given_up(bench: Bench) -> None:
    missed = re.compile("went silent|tries it, too")
    outs = ("frozen", "frozen again", "frozen once more")
    assert any(missed.search(_frozen(bench, out)) for out in outs)


def _frozen(bench: Bench, out: str) -> str:
    """A run whose first worker stops to move. Between two shards nobody misses it."""
    run = bench.start(out, "--workers", "2")
    run.until(lambda: len(_worker_pids(run)) == 2 and bench.receipts(out))
    os.kill(_worker_pids(run)[0], signal.SIGSTOP)
    assert run.wait() == 0, run.text
    bench.check_whole(out)
    return run.text


def _worker_pids(run: Command) -> list[int]:
    return [int(pid) for pid in re.findall(r"worker \d+ on \S+ \(process (\d+)\)", run.text)]


def _of(run: Command, title: str) -> psutil.Process:
    """A process of the run's Ray."""
    (found,) = [
        process
        for process in psutil.Process(run.process.pid).children(recursive=True)
        if title in " ".join(process.cmdline())
    ]
    return found

"""Several Ray nodes, each with its own address, cable and temporary folder; a shared output."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from check import Expected, check, expected
from command import Command
from job import Job, make_job
from nodes import Cluster, Node, namespaces_work
from processes import adopt_orphans, end_all
from skew import skewed

pytestmark = [
    pytest.mark.nodes,
    pytest.mark.skipif(not namespaces_work(), reason="needs root, iproute2, network namespaces"),
]

LEASE_SECONDS = 4
END_SECONDS = 300.0


class Bench:
    """A cluster, a job and what it must give."""

    def __init__(self, folder: Path, cluster: Cluster, job: Job, want: Expected) -> None:
        self.folder, self.cluster, self._job, self._want = folder, cluster, job, want

    def start(self, out: str, *options: str) -> Command:
        address = ("--address", self.cluster.address, *(options or ("--workers", "2")))
        words = self.cluster.head.inside(self._job.words(self.folder / out, *address))
        env = {**environment(self.folder), **self.cluster.env}
        return Command(words, self.folder / f"{out}.log", env)

    def receipts(self, out: str) -> int:
        return len(list((self.folder / out / "_promptmill" / "receipts").glob("*.json")))

    def started(self, out: str) -> Command:
        """A command that has two workers at work, one on each node."""
        command = self.start(out)
        command.until(lambda: len(worker_pids(command)) == 2 and self.receipts(out) >= 3)
        assert any(map(is_queue, self.cluster.head.processes())), "the queue is not with the driver"
        return command

    def check(self, out: str) -> None:
        check(self.folder / out, self._want)


def environment(folder: Path) -> dict[str, str]:
    return {
        "PROMPTMILL_CACHE": str(folder / "cache"),
        "PROMPTMILL_LEASE_SECONDS": str(LEASE_SECONDS),
    }


def worker_pids(command: Command) -> list[int]:
    return [int(pid) for pid in re.findall(r"worker \d+ on \S+ \(process (\d+)\)", command.text)]


def is_queue(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return "QueueActor" in " ".join(process.cmdline())
    return False


def freeze(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    adopt_orphans()
    folder = tmp_path_factory.mktemp("nodes")
    job = make_job(folder / "in", rows=24_000, shards=240)
    calm = Command(job.words(folder / "calm", "--local"), folder / "calm.log", environment(folder))
    assert calm.wait(END_SECONDS) == 0, calm.text
    short = Path("/tmp") / f"pm{os.getpid()}"  # Ray puts sockets below it
    with Cluster(short) as cluster:
        yield Bench(folder, cluster, job, expected(folder / "calm"))
    end_all()
    shutil.rmtree(short)


@pytest.fixture
def two(bench: Bench) -> list[Node]:
    """The worker nodes, all of the cluster alive."""
    bench.cluster.mend()
    return bench.cluster.workers


def test_a_node_dies_and_another_one_joins(bench: Bench, two: list[Node]) -> None:
    run = bench.started("died")
    two[0].kill()
    run.until(lambda: "died" in run.text)
    two[0].start()
    run.until(lambda: len(worker_pids(run)) == 3)
    assert run.wait(END_SECONDS) == 0, run.text
    assert "Traceback" not in run.text
    bench.check("died")


def test_a_node_that_was_cut_off_overwrites_nothing(bench: Bench, two: list[Node]) -> None:
    """Longer than a lease, shorter than Ray takes to give it up: its worker comes back."""
    run = bench.started("cut")
    two[0].cut()
    run.until(lambda: "went silent" in run.text)
    two[0].heal()
    assert run.wait(END_SECONDS) == 0, run.text
    bench.check("cut")


def test_without_its_head_a_run_ends_clearly_and_continues(bench: Bench, two: list[Node]) -> None:
    run = bench.started("head")
    bench.cluster.head.kill()
    freeze(worker_pids(run))  # alone, they might finish before the head counts as lost
    assert run.wait(END_SECONDS) == 1, run.text
    assert "promptmill: The head of Ray" in run.text, run.text
    assert "same command continues" in run.text
    bench.cluster.mend()
    again = bench.start("head")
    assert again.wait(END_SECONDS) == 0, again.text
    assert "resumed: " in again.text
    bench.check("head")


def test_clocks_that_differ_by_days_change_nothing(bench: Bench, two: list[Node]) -> None:
    for node, days in zip(two, (-3, 3), strict=True):
        skew = skewed(bench.folder, days * 86400)
        if skew is None:
            pytest.skip("no C compiler")
        node.clear()
        node.env = skew
    bench.cluster.mend()
    run = bench.started("clocks")
    freeze(worker_pids(run)[:1])  # its lease ends by the queue's clock alone
    run.until(lambda: "went silent" in run.text)
    assert run.wait(END_SECONDS) == 0, run.text
    for node in two:
        node.env = {}
        node.clear()
    bench.check("clocks")


@pytest.mark.parametrize("options", [(), ("--workers", "1:2")], ids=["every CPU", "range"])
def test_nodes_that_come_later_are_used(bench: Bench, options: tuple[str, ...]) -> None:
    cluster = bench.cluster
    for node in cluster.nodes.values():
        node.clear()
    cluster.head.start()
    cluster.head.wait_ready()
    out = f"late{len(options)}"
    command = bench.start(out, *(options or ("--on-error", "record")))
    command.until(lambda: "shards, job" in command.text)
    cluster.mend()
    assert command.wait(END_SECONDS) == 0, command.text
    bench.check(out)

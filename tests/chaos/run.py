#!/usr/bin/env python3
"""Runs under random faults, checked every time against an undisturbed one.

    python tests/chaos/run.py [--rounds N] [--seed S] [--where local|ray|nodes|store] [--keep]

Round number I has the seed S + I. A round starts one job again and again, disturbs the first few
starts, lets the last one work in peace, and checks what is there then. The first miss ends it all;
`--rounds 1 --seed` with its seed does the same faults again, as near as times repeat.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))

import faults
from check import Expected, Miss, check, expected
from command import Command
from faults import Disk, Fault, Scene
from job import Job, make_job
from nodes import Cluster, namespaces_work
from outputs import FolderOutput, Output, StoreOutput
from processes import LOOK_SECONDS, adopt_orphans, end_all
from s3_server import S3Server, s3_server

ROWS: Final = 4000
SHARDS: Final = 40
DISK_BYTES: Final = 192 << 20
LEASE_SECONDS: Final = 4.0
COMMAND_SECONDS: Final = 300.0
"""A command that takes longer hangs."""
ENDINGS: Final = {0, 1, 130, 143, -signal.SIGKILL, -signal.SIGINT, -signal.SIGTERM}
"""Exit codes of a disturbed command; a signal that comes before the program is loaded ends it."""
START_ODDS: Final = 0.2
"""Of a fault while a command is only starting."""
MOST_STARTS: Final = 2
"""Of the job under faults, before it is left in peace."""
SECONDS_EACH: Final = 90.0
"""For a round, on average: no new round begins after so much for each."""


class Where(StrEnum):
    """What the job runs on."""

    LOCAL = "local"
    RAY = "ray"
    NODES = "nodes"
    STORE = "store"
    """A Ray of its own, the output in an object store."""


ODDS: Final = {Where.LOCAL: 2, Where.RAY: 5, Where.NODES: 3, Where.STORE: 2}
FAULTS: Final[dict[Where, tuple[Fault, ...]]] = {
    Where.LOCAL: faults.ANYWHERE,
    Where.RAY: (*faults.ANYWHERE, *faults.ON_RAY, *faults.ON_OWN_RAY),
    Where.STORE: (
        *(faults.kill_driver, faults.stop_driver, faults.kill_worker, faults.freeze_worker),
        *faults.ON_STORE,
    ),
    Where.NODES: (*faults.ANYWHERE, *faults.ON_RAY, *faults.ON_CLUSTER),
}


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault, and when it comes."""

    fault: Fault
    share: float | None
    """Of the shards that were open at the start; None: when the command has just been started."""
    delay: float
    """Seconds after that."""

    def __str__(self) -> str:
        when = "start" if self.share is None else f"{self.share:.0%}"
        return f"{self.fault.__name__} at {when} + {self.delay:.1f} s"


class Round:
    """One job, disturbed.

    Args:
        seed: decides what happens.
        where: None: the seed decides that, too.
        folder: of its own.
        job: what is to be done.
    """

    def __init__(self, seed: int, where: Where | None, folder: Path, job: Job) -> None:
        self._chance = random.Random(seed)
        drawn = self._chance.choices(list(ODDS), list(ODDS.values()))[0]
        self.where = where or drawn
        self._folder, self._job = folder, job
        self._out: Output = FolderOutput(folder / "disk" / "out")
        self._store: S3Server | None = None
        self._logs = 0
        self.happened: list[str] = []

    def run(self, want: Expected, env: dict[str, str]) -> None:
        """Do it all.

        Raises:
            Miss: a promise was not kept.
        """
        with ExitStack() as stack:
            disk = _disk(self._folder / "disk", stack)
            env = {**env, "RAY_TMPDIR": str(self._folder / "r")}
            cluster = None
            if self.where is Where.NODES:
                cluster = stack.enter_context(Cluster(self._folder / "c", env=env))
                env |= cluster.env
            if self.where is Where.STORE:
                self._store = stack.enter_context(s3_server())
                env |= self._store.environment
                self._out = StoreOutput(self._store, self._folder / "copy")
            starts = self._chance.randint(1, MOST_STARTS)
            for _ in range(starts):
                if cluster:
                    cluster.mend()
                if not self._disturbed(want, env, disk, cluster):
                    break
            if cluster:
                cluster.mend()
            command = self._start(env, cluster)
            if code := self._end(command):
                raise Miss(f"left in peace, the command ends with {code}:\n{command.text[-3000:]}")
            check(self._out.as_folder(), want)
        if left := end_all():
            raise Miss(f"processes are left: {left}")

    def _disturbed(
        self, want: Expected, env: dict[str, str], disk: Disk | None, cluster: Cluster | None
    ) -> bool:
        """One start under faults; whether something is left to do."""
        before = self._out.committed()
        command = self._start(env, cluster)
        scene = Scene(self._chance, command, LEASE_SECONDS, disk, cluster, self._store)
        for strike in self._strikes():
            if strike.share is not None:
                due = before + strike.share * (len(want.receipts) - before)
                self._wait(scene, lambda due=due: self._out.committed() > due)
            end = time.monotonic() + strike.delay
            self._wait(scene, lambda end=end: time.monotonic() > end)
            if command.ended:
                break
            hit = strike.fault(scene)
            self.happened.append(f"{strike}" if hit else f"{strike} (nothing there)")
        code = self._end(command, scene)
        if self._store:
            self._store.troubles.clear()
        self.happened.append(f"exit code {code}")
        if code == 1 and "Traceback" in command.text:
            raise Miss(f"a traceback instead of a message:\n{command.text[-3000:]}")
        if code not in ENDINGS:
            raise Miss(f"exit code {code}:\n{command.text[-3000:]}")
        return code != 0

    def _strikes(self) -> list[Strike]:
        chance = self._chance
        shares = sorted(chance.uniform(0, 0.9) for _ in range(chance.randint(1, 3)))
        when: list[float | None] = [*shares]
        if chance.random() < START_ODDS:
            when[0] = None
        faults = FAULTS[self.where]
        return [
            Strike(chance.choice(faults), share, chance.uniform(0, 6 if share is None else 0.3))
            for share in when
        ]

    def _wait(self, scene: Scene, condition: Callable[[], bool]) -> None:
        while not (condition() or scene.command.ended):
            scene.do_due()
            time.sleep(LOOK_SECONDS)

    def _start(self, env: dict[str, str], cluster: Cluster | None) -> Command:
        self._logs += 1
        where = {
            Where.LOCAL: ["--local"],
            Where.RAY: ["--workers", str(self._chance.randint(1, 3))],
            Where.STORE: ["--workers", "2"],
            Where.NODES: ["--workers", "2", "--address", cluster.address if cluster else ""],
        }
        words = self._job.words(self._out.address, *where[self.where])
        words = cluster.head.inside(words) if cluster else words
        return Command(words, self._folder / f"run{self._logs}.log", env)

    def _end(self, command: Command, scene: Scene | None = None) -> int:
        end = time.monotonic() + COMMAND_SECONDS
        while not command.ended:
            if scene:
                scene.do_due()
            if time.monotonic() > end:
                raise Miss(f"the command hangs:\n{command.text[-3000:]}")
            time.sleep(LOOK_SECONDS)
        if scene:
            scene.do_due(all_of_it=True)
        return command.process.returncode


def _disk(folder: Path, stack: ExitStack) -> Disk | None:
    """A small disk of its own for the output; None where none can be mounted."""
    folder.mkdir(parents=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(folder)]
    if os.geteuid() or subprocess.run(words, capture_output=True, check=False).returncode:
        return None
    stack.callback(subprocess.run, ["umount", "--lazy", str(folder)], check=False)
    return Disk(folder)


def main() -> int:
    """Parse arguments, run, report."""
    args = _arguments()
    if args.where is Where.NODES and not namespaces_work():
        raise SystemExit("network namespaces need root and iproute2")
    adopt_orphans()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # to clean up then, too
    folder = Path(tempfile.mkdtemp(prefix="pm", dir="/tmp"))  # short: Ray puts sockets below it
    try:
        return _rounds(args, folder)
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        return 130
    finally:
        end_all(0.0)


def _rounds(args: argparse.Namespace, folder: Path) -> int:
    env = {
        "PROMPTMILL_CACHE": str(folder / "cache"),
        "PROMPTMILL_LEASE_SECONDS": str(LEASE_SECONDS),
    }
    job = make_job(folder / "in", rows=ROWS, shards=SHARDS)
    calm = Command(job.words(folder / "calm", "--local"), folder / "calm.log", env)
    if calm.wait(COMMAND_SECONDS):
        raise SystemExit(f"the undisturbed run fails:\n{calm.text}")
    want = expected(folder / "calm")
    start, seen = time.monotonic(), Counter[str]()
    for number in range(args.rounds):
        if time.monotonic() - start > args.rounds * SECONDS_EACH:
            print(f"no time for more: {number} of {args.rounds} rounds")
            break
        began, seed = time.monotonic(), args.seed + number
        one = Round(seed, args.where, folder / str(number), job)
        if one.where is Where.NODES and not namespaces_work():
            one.where = Where.RAY
        try:
            one.run(want, env)
        except Miss as miss:
            print(f"round {seed} on {one.where}: {'; '.join(one.happened)}\nMISS {miss}")
            print(f"again: {sys.argv[0]} --rounds 1 --seed {seed}    logs: {folder / str(number)}")
            return 1
        seconds = time.monotonic() - began
        print(f"round {seed} on {one.where}, {seconds:.0f} s: {'; '.join(one.happened)}: good")
        seen.update(
            what.split(" at ")[0] for what in one.happened if " at " in what and what[-1] != ")"
        )
        if not args.keep:
            shutil.rmtree(folder / str(number), ignore_errors=True)
    print("no miss; " + ", ".join(f"{name} {times}" for name, times in sorted(seen.items())))
    if not args.keep:
        shutil.rmtree(folder)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--where", type=Where, choices=list(Where))
    parser.add_argument("--keep", action="store_true", help="leave the logs of good rounds, too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.exit(main())

"""One driver on one output folder: `_promptmill/driver.json`, there while a driver works.

A driver that died leaves its file behind. On the same machine its process is looked for; on
another one the file is watched: a living driver changes it every `BEAT_SECONDS`, and no clocks
are compared. Should two drivers work all the same, files are published once only.
"""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import psutil

from promptmill.pipeline.storage.place import Place
from promptmill.pipeline.storage.remote import RemotePath
from promptmill.pipeline.write.publish import publish
from promptmill.schemas.errors import JobError
from promptmill.workers.leases import Snapshot
from promptmill.workers.output_folder import OutputFolder
from promptmill.workers.pace import Pace

BEAT_SECONDS = 3.0
WATCH_SECONDS = 15.0
"""A file of another machine that does not change for so long is a dead driver's."""
WATCH_STORE_SECONDS = 60.0
"""The same in an object store, where a request may be tried again for half a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverState:
    """What the driver says about itself, for other drivers and for `promptmill status`."""

    token: str
    """Tells this start from every other."""
    machine: str
    """Host, boot and process namespace: where `pid` means something."""
    host: str
    pid: int
    process_started: float
    beat: int = 0
    """Counts up while the driver lives."""
    pace: Pace | None = None
    """How far the run is."""
    workers: int = 0
    """Workers that are ready."""
    held: tuple[str, ...] = ()
    """Who holds which shard, the oldest first."""

    def pace_now(self, committed_lines: int) -> Pace | None:
        """Its pace, not behind what is committed: it speaks up every `BEAT_SECONDS` only."""
        return None if self.pace is None else self.pace.with_committed(committed_lines)


class DriverLock:
    """Holds the folder for this process.

    Args:
        folder: the output folder.
        say: takes a line for the log.
        watch_seconds: how long a file of another machine is watched; None: as long as the kind
            of folder needs.
    """

    def __init__(
        self,
        folder: OutputFolder,
        say: Callable[[str], None],
        *,
        watch_seconds: float | None = None,
    ) -> None:
        self._folder = folder
        self._say = say
        self._watch_seconds = watch_seconds or (
            WATCH_SECONDS if isinstance(folder.root, Path) else WATCH_STORE_SECONDS
        )
        self._last_beat = 0.0
        process = psutil.Process()
        self.state = DriverState(
            token=uuid.uuid4().hex,
            machine=_machine(),
            host=socket.gethostname(),
            pid=process.pid,
            process_started=process.create_time(),
        )

    def acquire(self) -> None:
        """Take the folder, from nobody or from a dead driver.

        Raises:
            JobError: another driver works on it.
        """
        while not self._create():
            other = read_driver(self._folder)
            if other is None:
                continue
            if self._alive(other):
                raise JobError(
                    f"Another promptmill works on {self._folder.root} (process {other.pid} on "
                    f"{other.host}). Wait for it or stop it; `promptmill status` shows its "
                    "progress."
                )
            self._say(f"taking over from process {other.pid} on {other.host}, which is dead")
            self._remove(other)
        if isinstance(self._folder.root, RemotePath):
            self._check_conditions()

    def beat(self, snapshot: Snapshot, pace: Pace) -> None:
        """Show that the driver is alive, and its progress, if it is time for it.

        Raises:
            JobError: another driver has taken the folder over, or the folder was removed.
        """
        if time.monotonic() - self._last_beat < BEAT_SECONDS:
            return
        self._last_beat = time.monotonic()
        other = read_driver(self._folder)
        if other is None:
            raise JobError(
                f"{self._folder.driver} is gone: someone removed or emptied the output folder "
                "while this run worked on it. Remove what is left, then give the command again."
            )
        if other.token != self.state.token:
            raise JobError(
                f"Process {other.pid} on {other.host} has taken {self._folder.root} over while "
                "this one was not heard of. It goes on with the work."
            )
        self.state = replace(
            self.state,
            beat=self.state.beat + 1,
            pace=pace,
            workers=snapshot.workers,
            held=snapshot.held,
        )
        self._folder.replace(self._folder.driver, msgspec.json.encode(self.state))

    def held(self) -> bool:
        """Whether the folder is still this driver's."""
        holder = read_driver(self._folder)
        return holder is not None and holder.token == self.state.token

    def release(self) -> None:
        """Give the folder back."""
        if self.held():
            self._folder.driver.unlink(missing_ok=True)

    def _alive(self, other: DriverState) -> bool:
        if (here := runs_here(other)) is not None:
            return here
        self._say(
            f"{self._folder.root} was last worked on by process {other.pid} on {other.host}; "
            f"watching for {self._watch_seconds:.0f} s whether it is alive"
        )
        end = time.monotonic() + self._watch_seconds
        while time.monotonic() < end:
            time.sleep(min(0.5, self._watch_seconds / 4))
            if read_driver(self._folder) != other:
                return True
        return False

    def _create(self) -> bool:
        """Make the file with its content in one step; False where it exists."""
        return self._folder.add(self._folder.driver, msgspec.json.encode(self.state))

    def _check_conditions(self) -> None:
        """An object store that writes over what is there cannot hold a run."""
        again = msgspec.json.encode(replace(self.state, beat=1))
        if self._folder.add(self._folder.driver, again):
            self._folder.driver.unlink(missing_ok=True)
            raise JobError(
                f"The store of {self._folder.root} writes over an object although told not to "
                "(If-None-Match), so that two workers could spoil each other's files. Use a store "
                "with conditional writes, or a folder."
            )

    def _remove(self, expected: DriverState) -> None:
        """Remove a dead driver's file, but not the one of a driver that was quicker."""
        driver = self._folder.driver
        if not isinstance(driver, Path):
            # Nothing can be renamed in an object store: between the look and the removal another
            # driver may come in. Whoever comes last stays, the other one notices at its next beat.
            if (found := read_driver(self._folder)) and found.token == expected.token:
                driver.unlink(missing_ok=True)
            return
        self._folder.temporary.mkdir(parents=True, exist_ok=True)
        aside = self._folder.temporary / f"driver.{uuid.uuid4().hex}"
        try:
            driver.rename(aside)
        except FileNotFoundError:
            return
        if _read(aside).token == expected.token:
            aside.unlink()
        else:
            publish(aside, driver)


def read_driver(folder: OutputFolder) -> DriverState | None:
    """Who works on the folder; None where nobody says so."""
    try:
        return _read(folder.driver)
    except FileNotFoundError:
        return None


def _read(path: Place) -> DriverState:
    """A file that is damaged speaks for a driver nobody knows."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=DriverState)
    except msgspec.MsgspecError:
        return DriverState(token="", machine="", host="unknown", pid=0, process_started=0.0)


def runs_here(state: DriverState) -> bool | None:
    """Whether the driver's process lives; None where that cannot be seen from this machine."""
    if state.machine != _machine():
        return None
    try:
        started = psutil.Process(state.pid).create_time()
    except psutil.Error:
        return False
    return bool(abs(started - state.process_started) < 1.0)


def _machine() -> str:
    parts = [socket.gethostname()]
    for path in (Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")):
        try:
            found = path.readlink() if path.is_symlink() else path.read_text(encoding="ascii")
        except OSError:
            continue
        parts.append(str(found).strip())
    return "/".join(parts)

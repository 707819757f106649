"""One driver a folder: refused while the other lives, taken over when it is dead."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import msgspec
import psutil
import pytest

from promptmill.schemas.errors import JobError
from promptmill.schemas.run import Totals
from promptmill.workers import driver_lock
from promptmill.workers.driver_lock import DriverLock, DriverState, read_driver, runs_here
from promptmill.workers.leases import Snapshot
from promptmill.workers.output_folder import OutputFolder
from promptmill.workers.pace import Pace

SNAPSHOT = Snapshot(
    totals=Totals(),
    shards=1,
    shards_done=0,
    workers=2,
    failure=None,
    silent=(),
    notes=(),
    held=("worker 1 shard 0 for 1 s",),
)
PACE = Pace(lines=42, lines_total=100, percent=42)


@pytest.fixture
def folder(tmp_path: Path) -> OutputFolder:
    return OutputFolder(tmp_path)


def lock(folder: OutputFolder, said: list[str] | None = None) -> DriverLock:
    return DriverLock(folder, (said if said is not None else []).append, watch_seconds=0.4)


def put(folder: OutputFolder, state: DriverState) -> None:
    folder.replace(folder.driver, msgspec.json.encode(state))


def test_taken_and_given_back(folder: OutputFolder) -> None:
    first = lock(folder)
    first.acquire()
    with pytest.raises(JobError, match="Another promptmill works on"):
        lock(folder).acquire()
    first.release()
    assert not folder.driver.exists()
    lock(folder).acquire()


def test_a_dead_process_of_this_machine_is_followed(folder: OutputFolder) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = psutil.Process(child.pid)
    dead = replace(
        lock(folder).state, token="x", pid=child.pid, process_started=process.create_time()
    )
    assert runs_here(dead)
    child.communicate()
    assert runs_here(dead) is False
    put(folder, dead)
    said: list[str] = []
    lock(folder, said).acquire()
    assert "taking over" in said[0]


def test_a_reused_process_number_is_not_the_driver(folder: OutputFolder) -> None:
    own = lock(folder).state
    assert runs_here(replace(own, process_started=own.process_started - 100)) is False


def test_another_machines_driver_is_watched(folder: OutputFolder) -> None:
    other = replace(lock(folder).state, token="x", machine="elsewhere", host="elsewhere")
    assert runs_here(other) is None
    put(folder, other)
    beat = threading.Timer(0.1, put, (folder, replace(other, beat=1)))
    beat.start()
    with pytest.raises(JobError, match="elsewhere"):
        lock(folder).acquire()
    beat.join()
    lock(folder).acquire()


def test_a_damaged_file_does_not_block_for_ever(folder: OutputFolder) -> None:
    folder.private.mkdir()
    folder.driver.write_text("{")
    lock(folder).acquire()


def test_beats_carry_progress(folder: OutputFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_lock, "BEAT_SECONDS", 0.0)
    own = lock(folder)
    own.acquire()
    own.beat(SNAPSHOT, PACE)
    state = read_driver(folder)
    assert state is not None
    assert (state.pace, state.workers, state.beat) == (PACE, 2, 1)


def test_a_driver_that_was_taken_over_stops(
    folder: OutputFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_lock, "BEAT_SECONDS", 0.0)
    own = lock(folder)
    own.acquire()
    put(folder, replace(own.state, token="other"))
    with pytest.raises(JobError, match="taken"):
        own.beat(SNAPSHOT, PACE)
    own.release()
    assert folder.driver.exists()


def test_a_driver_whose_folder_is_removed_stops(folder: OutputFolder) -> None:
    own = lock(folder)
    own.acquire()
    folder.driver.unlink()
    with pytest.raises(JobError, match=r"driver\.json is gone"):
        own.beat(SNAPSHOT, PACE)
    assert read_driver(folder) is None

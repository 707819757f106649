"""One driver on an output in an object store, and a store that cannot hold a run."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import msgspec
import pytest

from promptmill.pipeline.storage.remote import RemotePath
from promptmill.schemas.errors import JobError
from promptmill.workers.driver_lock import DriverLock, DriverState, read_driver
from promptmill.workers.output_folder import OutputFolder
from s3_server import Bucket, S3Server


@pytest.fixture
def folder(s3: S3Server, bucket: Bucket) -> OutputFolder:
    return OutputFolder(RemotePath(f"s3://{bucket.name}/out"))


def lock(folder: OutputFolder) -> DriverLock:
    return DriverLock(folder, lambda line: None, watch_seconds=0.4)


def put(folder: OutputFolder, state: DriverState) -> None:
    folder.replace(folder.driver, msgspec.json.encode(state))


def test_taken_and_given_back(folder: OutputFolder) -> None:
    first = lock(folder)
    first.acquire()
    with pytest.raises(JobError, match=r"Another promptmill works on s3://bucket.*/out"):
        lock(folder).acquire()
    first.release()
    assert read_driver(folder) is None
    lock(folder).acquire()


def test_of_many_drivers_one_takes_it(folder: OutputFolder) -> None:
    start = threading.Barrier(4)

    def attempt(own: DriverLock) -> bool:
        start.wait()
        try:
            own.acquire()
        except JobError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(attempt, [lock(folder) for _ in range(4)]))
    assert won.count(True) == 1


def test_a_dead_drivers_lock_is_taken_over(folder: OutputFolder) -> None:
    other = replace(lock(folder).state, token="x", machine="elsewhere", host="elsewhere")
    put(folder, other)
    own = lock(folder)
    own.acquire()
    assert own.held()


def test_a_living_drivers_lock_is_not(folder: OutputFolder) -> None:
    other = replace(lock(folder).state, token="x", machine="elsewhere", host="elsewhere")
    put(folder, other)
    beat = threading.Timer(0.1, put, (folder, replace(other, beat=1)))
    beat.start()
    with pytest.raises(JobError, match="elsewhere"):
        lock(folder).acquire()
    beat.join()


def test_an_answer_that_was_lost_is_no_other_driver(folder: OutputFolder, s3: S3Server) -> None:
    s3.trouble("PUT", "driver.json", "lost", times=1)
    lock(folder).acquire()


def test_a_store_without_conditions_is_refused(
    folder: OutputFolder, s3: S3Server, bucket: Bucket
) -> None:
    s3.trouble("PUT", "driver.json", "unconditional")
    with pytest.raises(JobError, match="writes over an object although told not to"):
        lock(folder).acquire()
    assert bucket.objects() == {}

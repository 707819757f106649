"""A run on a disk that is too small ends clearly and goes on when there is room."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from check import check, expected
from command import Command
from job import make_job

SMALL, ROOMY = "size=600k", "size=64m"
ENV = {"PROMPTMILL_CACHE": "off"}


def mount(options: str, place: Path) -> bool:
    words = ["mount", "-t", "tmpfs", "-o", options, "none", str(place)]
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    if not mount(SMALL, place):
        pytest.skip("no disk can be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_is_said_and_the_run_goes_on_later(tmp_path: Path, disk: Path) -> None:
    job = make_job(tmp_path / "in", rows=2000, shards=20)
    calm = Command(job.words(tmp_path / "calm", "--local"), tmp_path / "calm.log", ENV)
    assert calm.wait(300) == 0, calm.text
    want = expected(tmp_path / "calm")

    full = Command(job.words(disk / "out", "--local"), tmp_path / "full.log", ENV)
    assert full.wait(300) == 1, full.text
    assert "No space left on device" in full.text
    assert "Traceback" not in full.text
    published = list((disk / "out").glob("part-*"))
    assert published
    assert all(path.read_bytes() == want.files[path.name] for path in published)

    assert mount(f"remount,{ROOMY}", disk)
    again = Command(job.words(disk / "out", "--local"), tmp_path / "again.log", ENV)
    assert again.wait(300) == 0, again.text
    assert "resumed: " in again.text
    check(disk / "out", want)

"""What an output folder may hold, and that anything else is refused and left alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from promptmill.schemas.errors import JobError
from promptmill.schemas.run import RunRecord, RunState
from promptmill.workers.output_folder import OutputFolder

RECORD = RunRecord(
    state=RunState.RUNNING,
    fingerprint="f",
    identity={"rules": "r"},
    options={},
    clock="2026-01-01T00:00:00+00:00",
    shards=2,
    started="2026-01-01T00:00:00+00:00",
)


@pytest.fixture
def folder(tmp_path: Path) -> OutputFolder:
    return OutputFolder(tmp_path / "out", shards=2)


def test_new_and_empty_folders_are_fine(folder: OutputFolder) -> None:
    folder.check()
    assert not folder.root.exists()
    folder.root.mkdir()
    folder.check()


@pytest.mark.parametrize(
    "name",
    ["keep.parquet", ".hidden", "part-00000-of-00001.parquet", "_promptmill/mine", "sub/x"],
)
def test_strangers_are_refused_and_left(folder: OutputFolder, name: str) -> None:
    path = folder.root / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with pytest.raises(JobError, match=r"not empty.*new or empty folder"):
        folder.check()
    assert [p for p in folder.root.rglob("*") if p.is_file()] == [path]


def test_a_file_is_no_folder(folder: OutputFolder) -> None:
    folder.root.write_text("mine")
    with pytest.raises(JobError, match="not a folder"):
        folder.check()


def test_our_own_files_are_known(folder: OutputFolder) -> None:
    folder.create()
    folder.check()
    folder.write_record(RECORD)
    folder.part(1).touch()
    folder.receipt(1).touch()
    folder.check()
    (folder.root / "part-1.parquet").touch()
    with pytest.raises(JobError, match=r"part-1\.parquet"):
        folder.check()


def test_the_record_comes_back(folder: OutputFolder) -> None:
    assert folder.read_record() is None
    folder.create()
    folder.write_record(RECORD)
    assert folder.read_record() == RECORD
    folder.record.write_text("{")
    with pytest.raises(JobError, match="damaged"):
        folder.read_record()


def test_clean_removes_only_temporary_files(folder: OutputFolder) -> None:
    folder.create()
    (folder.temporary / "half").touch()
    folder.part(0).touch()
    folder.clean()
    assert not folder.temporary.exists()
    assert folder.part(0).exists()


@pytest.mark.parametrize("name", ["_promptmill", "_promptmill/tmp", "part-00000-of-00002.parquet"])
def test_links_in_the_folder_are_refused_and_not_followed(
    folder: OutputFolder, tmp_path: Path, name: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "tmp").mkdir(parents=True)
    kept = elsewhere / "tmp" / "kept"
    kept.touch()
    if name != "_promptmill":
        folder.create()
        folder.write_record(RECORD)
        folder.clean()
    link = folder.root / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(elsewhere)
    with pytest.raises(JobError, match=f"refused.*{name}"):
        folder.check()
    if name == "_promptmill/tmp":
        folder.clean()
    assert kept.exists()


def test_what_a_run_writes_has_the_modes_that_the_user_set(folder: OutputFolder) -> None:
    before = os.umask(0o077)
    try:
        folder.create()
        folder.write_record(RECORD)
    finally:
        os.umask(before)
    for path in (folder.root, *folder.root.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path

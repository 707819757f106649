"""What an output folder may hold, and that anything else is refused and left alone."""

from __future__ import annotations

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

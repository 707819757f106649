from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from promptmill.schemas.errors import JobError
from promptmill.schemas.shard import InputCompression, InputFile, InputKind, Plan, Shards
from promptmill.workers.input_guard import check_inputs

LONG_AGO = 0.0


def plan(path: Path) -> Plan:
    file = InputFile(str(path), path.name, InputKind.JSONL, InputCompression.NONE, 3)
    return Plan((file,), Shards(), {path.name: hashlib.sha256(path.read_bytes()).hexdigest()})


def test_a_changed_file_is_found_whatever_its_time_says(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text("{}\n")
    planned = plan(path)
    path.write_text("[]\n")
    os.utime(path, (1, 1))
    with pytest.raises(JobError, match=r"in\.jsonl changed"):
        check_inputs(planned, LONG_AGO)


def test_touched_untouched_and_removed_files_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text("{}\n")
    planned = plan(path)
    path.touch()
    check_inputs(planned, LONG_AGO)
    path.write_text("[]\n")
    check_inputs(planned, time.time() + 60)  # not looked at: nothing was touched since
    path.unlink()
    check_inputs(planned, LONG_AGO)

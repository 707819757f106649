"""Unpublished files of a process: its own folder, which the next process removes after a kill."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CODE = """
import sys
from promptmill.pipeline.storage.scratch import scratch_folder
(scratch_folder() / "half").touch()
print(scratch_folder(), flush=True)
sys.stdin.read()
"""


def start(folder: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", CODE],
        env=os.environ | {"TMPDIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_each_process_has_its_own_and_the_dead_are_cleaned_up(tmp_path: Path) -> None:
    killed, left = start(tmp_path)
    living, kept = start(tmp_path)
    (tmp_path / "promptmill-other").mkdir()
    assert left.parent == tmp_path
    assert left != kept
    killed.kill()
    killed.communicate()
    assert left.exists()
    last, own = start(tmp_path)
    assert not left.exists()
    assert (kept / "half").exists()
    assert own.stat().st_mode & 0o077 == 0
    for process in (living, last):
        process.communicate()
    assert [path.name for path in tmp_path.iterdir()] == ["promptmill-other"]

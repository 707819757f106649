"""A few rounds of the chaos command; `make chaos` does more of them, and those on several nodes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from check import Miss, check, expected
from command import Command
from job import make_job

HERE = Path(__file__).resolve().parent


@pytest.mark.ray
@pytest.mark.parametrize(("where", "seed"), [("local", 3), ("ray", 101)])
def test_a_round(where: str, seed: int) -> None:
    words = [sys.executable, str(HERE / "run.py"), "--rounds", "1", "--seed", str(seed)]
    done = subprocess.run([*words, "--where", where], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_check_finds_what_is_wrong(tmp_path: Path) -> None:
    """Otherwise no round could miss."""
    job = make_job(tmp_path / "in", rows=300, shards=3)
    out = tmp_path / "out"
    run = Command(job.words(out, "--local"), tmp_path / "log", {"PROMPTMILL_CACHE": "off"})
    assert run.wait(300) == 0, run.text
    want = expected(out)
    check(out, want)
    parts = sorted(out.glob("part-*"))
    damage = {
        parts[0]: parts[1].read_bytes(),
        out / "part-00099-of-00100.parquet": parts[0].read_bytes(),
        out / "_promptmill" / "rejects" / "00000.jsonl": b"",
        out / "_promptmill" / "tmp": b"a leftover",
    }
    for path, data in damage.items():
        before = path.read_bytes() if path.exists() else None
        path.write_bytes(data)
        with pytest.raises(Miss):
            check(out, want)
        path.unlink() if before is None else path.write_bytes(before)
    check(out, want)

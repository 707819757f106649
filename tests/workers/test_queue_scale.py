"""A large fleet, simulated: the command that the figures in the docs come from."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

COMMAND = Path(__file__).resolve().parents[2] / "infra" / "bench" / "queue_scale.py"


def test_two_thousand_workers_lose_and_double_nothing() -> None:
    """The command itself checks that every shard is published and counted, once."""
    words = [sys.executable, str(COMMAND), "--shards", "100000", "--workers", "2000", "--seed", "7"]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert min(found["deaths"], found["silences"], found["second attempts"]) > 50
    assert found["calls per shard"] < 15
    assert found["plan pickled MB"] < 5

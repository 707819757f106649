"""A worker's native threads, counted in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from promptmill.workers.environment import ONE_THREAD

DEMO = Path(__file__).parents[2] / "static/demo/model/tokenizer.json"
COUNTED = """
import json, pathlib, sys
from promptmill.pipeline.engines.natives import Fastokens
Fastokens(pathlib.Path(sys.argv[1]).read_text()).encode(["some words and more " * 500] * 512)
tasks = pathlib.Path("/proc/self/task").iterdir()
print(json.dumps(sorted((task / "comm").read_text().strip() for task in tasks)))
"""


def native_threads(variables: dict[str, str]) -> list[str]:
    """The names of the threads that fastokens has beside the one that calls it."""
    kept = {name: value for name, value in os.environ.items() if name not in ONE_THREAD}
    done = subprocess.run(
        [sys.executable, "-c", COUNTED, str(DEMO)],
        env=kept | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    names: list[str] = json.loads(done.stdout)
    return [name for name in names if name.startswith("fastokens")]


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are listed on Linux")
def test_fastokens_has_no_threads_of_its_own() -> None:
    assert native_threads(ONE_THREAD) == []


@pytest.mark.skipif(
    not Path("/proc/self/task").is_dir() or (os.cpu_count() or 1) < 2, reason="needs two cores"
)
def test_without_the_variable_it_has_some() -> None:
    others = {name: one for name, one in ONE_THREAD.items() if "FASTOKENS" not in name}
    assert native_threads(others)

"""Fixtures for the data that lies beside the project and is never part of it."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ["PROMPTMILL_CACHE"] = "off"  # tests resolve models; commands they start as well

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("PROMPTMILL_SHARED", ROOT.parent / "shared")).resolve()


@pytest.fixture(autouse=True)
def _memory_stays_unbounded() -> Iterator[None]:
    """A run on `--local` bounds its process for good: in this one, later tests would fail."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    yield
    assert resource.getrlimit(resource.RLIMIT_DATA) == before, "run it in a process of its own"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of golden cases, data and models; tests that need it skip where it is missing."""
    if not SHARED.is_dir():
        pytest.skip(f"no shared test data at {SHARED}; set PROMPTMILL_SHARED")
    return SHARED


@pytest.fixture(scope="session")
def models(shared: Path) -> Path:
    """The unpacked model folders."""
    command = [sys.executable, str(shared / "unpack_models.py")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Path(done.stdout.strip())


@pytest.fixture(scope="session")
def tiny_models(shared: Path) -> Path:
    """The small hand-made model folders of the scenarios."""
    return shared / "scenarios" / "fixtures" / "models"

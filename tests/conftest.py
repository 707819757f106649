"""Fixtures for the data that lies beside the project and is never part of it, and a Ray head."""

import contextlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from s3_server import Bucket, S3Server, s3_server

os.environ["PROMPTMILL_CACHE"] = "off"  # tests resolve models; commands they start as well

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
START_SECONDS = 180.0
"""For a Ray head to start, on a machine that has other things to do."""
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


@dataclass(frozen=True, slots=True)
class Head:
    """Where a Ray head listens."""

    dashboard: str
    """The job server, as `promptmill submit --address` takes it."""
    gcs: str
    """As `promptmill run --address` takes it."""
    metrics: str
    """What Prometheus scrapes."""
    environment: dict[str, str]
    """What a command that talks to it needs."""

    @property
    def headers(self) -> dict[str, str]:
        """What a request needs."""
        return {"Authorization": f"Bearer {self.environment['RAY_AUTH_TOKEN']}"}


@pytest.fixture(scope="session")
def _s3_server() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def bucket(_s3_server: S3Server, tmp_path: Path) -> Bucket:
    """A new bucket on an S3 server that all tests share."""
    name = f"bucket-{tmp_path.parent.name}-{tmp_path.name}".replace("_", "-").lower()[-60:]
    made = Bucket(_s3_server, name.strip("-"))
    _s3_server.direct("PUT", f"/{made.name}")
    return made


@pytest.fixture(scope="session")
def ray_head() -> Iterator[Head]:
    """A real Ray head with its dashboard, started once, beside whatever else runs here.

    It is ended with everything that it started, and nothing else.
    """
    folder = tempfile.mkdtemp(prefix="pm-ray-", dir="/tmp")  # short: Ray's sockets lie in it
    gcs, dashboard, metrics, client, agent = _free_ports(5)
    options = {
        "port": gcs,
        "dashboard-port": dashboard,
        "dashboard-agent-listen-port": agent,
        "metrics-export-port": metrics,
        "ray-client-server-port": client,
        "temp-dir": folder,
        "node-ip-address": "127.0.0.1",
        "num-cpus": 2,
        "object-store-memory": 128 << 20,
    }
    command = [str(BIN / "ray"), "start", "--head", "--block", "--disable-usage-stats"]
    log, environment = Path(folder) / "start.log", _environment()
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*command, *(f"--{name}={value}" for name, value in options.items())],
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    head = Head(
        f"http://127.0.0.1:{dashboard}",
        f"127.0.0.1:{gcs}",
        f"http://127.0.0.1:{metrics}/metrics",
        environment,
    )
    try:
        _wait_for(head, process, log)
        yield head
    finally:
        _end(process)
        shutil.rmtree(folder, ignore_errors=True)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return kept | {
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",  # jobs start with `python`, pip with it
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": uuid.uuid4().hex,
        "RAY_metrics_report_interval_ms": "1000",
    }


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for held in sockets:
            held.bind(("127.0.0.1", 0))
        return [int(held.getsockname()[1]) for held in sockets]


def _wait_for(head: Head, process: subprocess.Popen[bytes], log: Path) -> None:
    request = urllib.request.Request(f"{head.dashboard}/api/version", headers=head.headers)
    end = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=5):
            return
        time.sleep(0.2)
    pytest.fail(f"Ray does not start:\n{log.read_text()}")


def _end(process: subprocess.Popen[bytes]) -> None:
    started = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    process.send_signal(signal.SIGTERM)
    _, alive = psutil.wait_procs(started, timeout=30)
    for left in alive:
        left.kill()
    process.wait()

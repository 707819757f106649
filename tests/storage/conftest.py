"""One S3 server for all tests of a session; each test has a bucket of its own."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from s3_server import S3Server, start

from promptmill.pipeline.storage import faults

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def _server() -> Iterator[S3Server]:
    server, process, proxy = start()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in credentials(server).items():
            patch.setenv(name, value)
        yield server
    proxy.shutdown()
    proxy.server_close()
    process.terminate()
    process.communicate()


@pytest.fixture
def s3(_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, without troubles; pauses between attempts are short."""
    monkeypatch.setattr(faults, "PAUSES", [0.01, 0.01, 0.01])
    _server.troubles.clear()
    _server.requests.clear()
    return _server


@pytest.fixture
def bucket(s3: S3Server) -> str:
    """The name of a new bucket."""
    name = f"bucket-{next(_NUMBERS)}"
    s3.direct("PUT", f"/{name}")
    return name


def credentials(server: S3Server) -> dict[str, str]:
    """What a process needs in its environment to use the server."""
    return {
        "AWS_ENDPOINT_URL": server.url,
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "S3cr3t",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_MAX_ATTEMPTS": "2",  # the client's own, with pauses that tests cannot shorten
    }

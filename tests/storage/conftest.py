"""The S3 server without troubles, and short pauses between attempts."""

from __future__ import annotations

import pytest

from promptmill.pipeline.storage import faults
from s3_server import Bucket, S3Server


@pytest.fixture
def s3(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server that has the bucket."""
    for name, value in bucket.server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(faults, "PAUSES", [0.01, 0.01, 0.01])
    bucket.server.troubles.clear()
    return bucket.server

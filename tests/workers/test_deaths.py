"""What Ray says of a lost worker, and what that means for the rows it was at."""

from __future__ import annotations

import pytest
from ray.exceptions import (
    ActorDiedError,
    NodeDiedError,
    OutOfMemoryError,
    RayError,
    WorkerCrashedError,
)

from promptmill.schemas.errors import ErrorCode
from promptmill.workers.fleet import _death


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OutOfMemoryError("killed"), ErrorCode.MEMORY_EXCEEDED),
        (ActorDiedError(), ErrorCode.WORKER_CRASHED),
        (WorkerCrashedError(), ErrorCode.WORKER_CRASHED),
        (NodeDiedError("gone"), ErrorCode.WORKER_CRASHED),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_death_has_its_code(error: RayError, code: ErrorCode) -> None:
    assert _death(error)[1] is code

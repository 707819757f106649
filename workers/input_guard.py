"""Inputs must not change while a run reads them: a look at the end, cheap where none did."""

from __future__ import annotations

import hashlib
from pathlib import Path

from promptmill.schemas.errors import JobError
from promptmill.schemas.shard import InputFile, Plan

SLACK_SECONDS = 2.0
"""File times are coarse, and a file server's clock may be a little off."""


def check_inputs(plan: Plan, since: float) -> None:
    """Compare the local files that were touched since the plan was begun with the plan.

    Args:
        plan: has the content hashes.
        since: when planning began (Unix time).

    Raises:
        JobError: a file has other content now, so what was read of it cannot be trusted.
    """
    for file in plan.files:
        if "://" not in file.url and _changed(file, plan.content[file.name], since):
            raise JobError(
                f"The input {file.url} changed while the run was reading it, so its rows may be "
                "of both versions. Start again with a new output folder when it is complete."
            )


def _changed(file: InputFile, sha256: str, since: float) -> bool:
    path = Path(file.url)
    try:
        touched = path.stat().st_ctime  # unlike the time of modification, it cannot be set
        if touched < since - SLACK_SECONDS:
            return False
        with path.open("rb") as stored:
            return hashlib.file_digest(stored, "sha256").hexdigest() != sha256
    except FileNotFoundError:
        return False  # removed after it was read: every shard checked its size

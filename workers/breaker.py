"""When a run is given up early: its first rows all fail in the same way."""

from __future__ import annotations

from promptmill.schemas.errors import ErrorCode
from promptmill.schemas.run import Totals

BREAKER_ROWS = 1000
"""So many first rows that all fail in the same way stop the run."""


def hopeless(seen: Totals) -> str | None:
    """Why to stop, for the user; None to go on.

    Args:
        seen: what the run has done so far, committed and under way.
    """
    if seen.rows_ok or seen.rows_rejected < BREAKER_ROWS or len(seen.rejects) != 1:
        return None
    (code,) = seen.rejects
    if code == ErrorCode.DROPPED_OVERLONG:  # what the job asked for is no fault
        return None
    return (
        f"The first {seen.rows_rejected:,} prompts all failed with {code}: the job looks wrong, "
        "not the rows. Nothing that is committed is lost."
    )

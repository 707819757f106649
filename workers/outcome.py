"""How a run ended: its exit code, and what a person reads."""

from __future__ import annotations

from dataclasses import dataclass

from promptmill.schemas.run import RunRecord
from promptmill.workers.job import Job
from promptmill.workers.ledger import Ledger
from promptmill.workers.packs import pack_lines
from promptmill.workers.summary import summary


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    exit_code: int
    lines: tuple[str, ...]
    """For a person to read."""
    run: str = ""
    """The run's name in logs and metrics."""


def outcome(job: Job, record: RunRecord, ledger: Ledger, *lines: str) -> Outcome:
    """The ending of a finished run."""
    assert record.totals is not None
    limit, rejected = job.options.max_rejects, record.totals.rows_rejected
    too_many = limit is not None and rejected > limit
    said = [*lines, *summary(record.totals, ledger, job.folder), *pack_lines(job)]
    if too_many:
        said.append(f"{rejected:,} rejects are more than --max-rejects {limit}: exit code 3")
    return Outcome(3 if too_many else 0, tuple(said))

"""How a run ended: its exit code, and what a person reads."""

from __future__ import annotations

from dataclasses import dataclass

from promptmill.schemas.run import RunRecord, RunTotals
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
    code = exit_code(record.totals, job.options.max_rejects)
    said = [*lines, *summary(record.totals, ledger, job.folder), *pack_lines(job)]
    if code:
        said.append(
            f"warning: {record.totals.rows_rejected:,} rejects are more than --max-rejects "
            f"{job.options.max_rejects}: exit code {code}"
        )
    return Outcome(code, tuple(said))


def exit_code(totals: RunTotals, max_rejects: int | None) -> int:
    """Of a finished run: 3 where it has more rejects than `--max-rejects`, else 0."""
    return 3 if max_rejects is not None and totals.rows_rejected > max_rejects else 0

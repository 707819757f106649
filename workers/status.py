"""What `promptmill status` says about an output folder, from any process that sees it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from promptmill.pipeline.storage.place import Place
from promptmill.schemas.errors import JobError
from promptmill.schemas.run import RunState
from promptmill.workers.driver_lock import DriverState, read_driver, runs_here
from promptmill.workers.ledger import Ledger, read_ledger
from promptmill.workers.output_folder import OutputFolder
from promptmill.workers.pace import Pace, pace_line
from promptmill.workers.summary import counted, summary


@dataclass(frozen=True, slots=True)
class Look:
    """A run's state at one moment."""

    lines: tuple[str, ...]
    """How far it is, who works on it, what came of it."""
    percent: int
    goes_on: bool
    """Whether a driver works on it, as far as can be seen from here."""


def look(root: Place) -> Look:
    """Look at a run.

    Raises:
        JobError: no run was started in this folder, or its files are damaged.
    """
    folder = OutputFolder(root)
    record = folder.read_record()
    if record is None:
        raise JobError(
            f"{root} holds no promptmill run. Name the folder that a run wrote to; a job that was "
            "just submitted has not begun yet, and --watch waits for it."
        )
    driver, ledger = read_driver(folder), read_ledger(folder)
    head = f"job {record.fingerprint[:12]}, started {record.started}"
    if record.state is RunState.FINISHED and record.totals is not None:
        said = summary(record.totals, ledger, folder)
        return Look((head, f"100 %, finished {record.finished}", *said), 100, goes_on=False)
    percent = min(99, 100 * len(ledger.committed) // max(1, record.shards))
    pace = driver.pace_now(ledger.totals.lines) if driver is not None else None
    if pace is not None:
        percent = pace.percent
    goes_on = driver is not None and runs_here(driver) is not False
    failure = [] if goes_on or record.failure is None else [f"failed: {record.failure}"]
    lines = (head, *failure, *_driver(driver, pace), _committed(ledger, record.shards))
    return Look(lines, percent, goes_on)


def _driver(driver: DriverState | None, pace: Pace | None) -> Iterator[str]:
    if driver is None:
        yield "stopped before its end; the same command continues it"
        return
    place = f"process {driver.pid} on {driver.host}"
    alive = runs_here(driver)
    if alive is False:
        yield f"{place} died before its end; the same command continues it"
        return
    said = "" if alive else " (as it last said)"
    yield f"{place} works on it, {counted(driver.workers, 'worker')}{said}"
    if pace is not None:
        yield pace_line(pace)
    yield from driver.held


def _committed(ledger: Ledger, shards: int) -> str:
    totals = ledger.totals
    return (
        f"committed: {len(ledger.committed):,} of {shards:,} shards, {totals.rows_ok:,} rows, "
        f"{totals.rows_rejected:,} rejects, {totals.rows_truncated:,} truncated, "
        f"{totals.tokens:,} tokens"
    )

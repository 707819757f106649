"""What `promptmill status` says about an output folder, from any process that sees it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from promptmill.schemas.errors import JobError
from promptmill.schemas.run import RunState
from promptmill.workers.driver_lock import read_driver, runs_here
from promptmill.workers.ledger import Ledger, read_ledger
from promptmill.workers.output_folder import OutputFolder
from promptmill.workers.summary import summary


def status(root: Path) -> Iterator[str]:
    """Lines: how far the run is, who works on it, what came of it.

    Raises:
        JobError: no run was started in this folder, or its files are damaged.
    """
    folder = OutputFolder(root)
    record = folder.read_record()
    if record is None:
        raise JobError(f"{root} holds no promptmill run.")
    ledger = read_ledger(folder)
    yield f"job {record.fingerprint[:12]}, started {record.started}"
    if record.state is RunState.FINISHED and record.totals is not None:
        yield f"100 %, finished {record.finished}"
        yield from summary(record.totals, ledger.examples, folder)
        return
    yield from _driver(folder)
    yield _committed(ledger, record.shards)


def _driver(folder: OutputFolder) -> Iterator[str]:
    driver = read_driver(folder)
    if driver is None:
        yield "stopped before its end; the same command continues it"
        return
    place = f"process {driver.pid} on {driver.host}"
    alive = runs_here(driver)
    if alive is False:
        yield f"{place} died before its end; the same command continues it"
        return
    yield f"{place} works on it, {driver.workers} workers" + ("" if alive else " (as it last said)")
    if driver.progress:
        yield driver.progress
    yield from driver.held


def _committed(ledger: Ledger, shards: int) -> str:
    totals = ledger.totals
    return (
        f"committed: {len(ledger.committed):,} of {shards:,} shards, {totals.rows_ok:,} rows, "
        f"{totals.rows_rejected:,} rejects, {totals.tokens:,} tokens"
    )

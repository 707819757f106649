"""A run's life: take the folder, do what is open, say what came of it.

    resolve -> compare with the folder's record -> lock -> work -> add up -> record

Exit codes: 0 done, 3 done with more rejects than --max-rejects; a `JobError` is 1. SIGINT and
SIGTERM end a run with 128 plus their number: what is committed stays, what is under way is given
up, and the same command continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from signal import Signals
from typing import Protocol

from promptmill.schemas.errors import JobError
from promptmill.schemas.options import JobOptions, OnError
from promptmill.schemas.run import RunRecord, RunState
from promptmill.workers.driver_lock import DriverLock
from promptmill.workers.duplicates import find_duplicates
from promptmill.workers.environment import quieten_ray
from promptmill.workers.fingerprint import another_job, differences, model_named
from promptmill.workers.input_guard import check_inputs
from promptmill.workers.job import Job, resolve_job
from promptmill.workers.leases import Snapshot, Work
from promptmill.workers.ledger import Ledger, read_ledger, sound_ledger
from promptmill.workers.local import LocalFleet
from promptmill.workers.logs import RUN_LENGTH, LogFormat, about
from promptmill.workers.outcome import Outcome, outcome
from promptmill.workers.pace import Pacer
from promptmill.workers.packs import has_packs, pack
from promptmill.workers.progress import Reporter
from promptmill.workers.report import leave_report
from promptmill.workers.shard_job import ShardJob
from promptmill.workers.signals import StopSignal
from promptmill.workers.summary import counted
from promptmill.workers.work import WorkerSetup

MOST_NOTES = 40
"""Notes and warnings that are shown: a cluster in trouble must not flood the log."""


class Fleet(Protocol):
    """Who does the work: `LocalFleet` or `RayFleet`."""

    def start(self) -> None:
        """Start the workers."""

    def poll(self) -> Snapshot:
        """See to the workers and say how things are."""

    def close(self) -> None:
        """End the workers."""


def run(options: JobOptions, reporter: Reporter, log_format: LogFormat = LogFormat.TEXT) -> Outcome:
    """Do a job, or what is left of it.

    Args:
        options: the job.
        reporter: where progress and notes go.
        log_format: of what the workers log.

    Raises:
        JobError: it cannot be done; what is committed stays.
    """
    job = resolve_job(options)
    with about(run=job.fingerprint[:RUN_LENGTH]):
        return replace(_run(job, reporter, log_format), run=job.fingerprint[:RUN_LENGTH])


def _run(job: Job, reporter: Reporter, log_format: LogFormat) -> Outcome:
    _say_some(reporter, [f"warning: {warning}" for warning in job.warnings])
    record = known_record(job)
    if record is not None and record.state is RunState.FINISHED:
        ledger = read_ledger(job.folder)
        if len(ledger.committed) == record.shards and has_packs(job):
            return outcome(job, record, ledger, "finished already: nothing to do")
    lock = DriverLock(job.folder, reporter.say)
    with StopSignal() as stop:
        lock.acquire()
        try:
            return _Run(job, lock, reporter, stop, log_format).complete()
        except JobError as error:
            with suppress(JobError, OSError):  # the first failure is the one that is told
                _note_failure(job, lock, str(error))
            raise
        finally:
            reporter.close()
            _leave(job, lock, reporter)


def known_record(job: Job) -> RunRecord | None:
    """The record of the folder's run, if it is of the same job; None where there is none.

    Raises:
        JobError: the folder belongs to another job; the message names what differs.
    """
    record = job.folder.read_record()
    if record is None or record.fingerprint == job.fingerprint:
        return record
    lines = list(differences(record.identity, job.identity))
    raise another_job(job.folder.root, model_named(record, job.options.model, lines))


def _note_failure(job: Job, lock: DriverLock, failure: str) -> None:
    """Say in the record why the run ended, if the record is of this job."""
    record = job.folder.read_record()
    if record is not None and record.fingerprint == job.fingerprint and lock.held():
        job.folder.write_record(replace(record, failure=failure))


def _leave(job: Job, lock: DriverLock, reporter: Reporter) -> None:
    """Report, tidy up and let go of the folder; a run that ended well is not failed by it."""
    try:
        if lock.held():
            leave_report(job.folder, job.fingerprint, reporter.say)
            job.folder.clean()
            lock.release()
    except (JobError, OSError) as error:
        reporter.say(f"warning: {job.folder.root} could not be left tidy: {error}")


class _Run:
    """A run that has its folder."""

    def __init__(
        self,
        job: Job,
        lock: DriverLock,
        reporter: Reporter,
        stop: StopSignal,
        log_format: LogFormat,
    ) -> None:
        self._job, self._lock, self._reporter, self._stop = job, lock, reporter, stop
        self._log_format = log_format
        self._notes = 0

    def complete(self) -> Outcome:
        """From what is committed to the end."""
        folder = self._job.folder
        folder.clean()
        folder.create()
        record, resumed = known_record(self._job) or self._new_record(), sound_ledger(folder)
        if record.state is RunState.FINISHED and len(resumed.committed) == record.shards:
            said = "finished already: only the index of packed sequences was missing"
            return self._packed(record, resumed, said)
        record = replace(record, state=RunState.RUNNING, finished=None, totals=None, failure=None)
        folder.write_record(record)
        self._greet(resumed)
        if len(resumed.committed) < record.shards:
            self._work(resumed)
        if self._stop.received is not None:
            return self._stopped(self._stop.received)
        ledger = read_ledger(folder)
        record = self._finished(record, resumed, ledger)
        folder.write_record(record)
        return self._packed(record, ledger)

    def _packed(self, record: RunRecord, ledger: Ledger, *lines: str) -> Outcome:
        """The ending, once the index of packed sequences is there that the job may ask for."""
        if not has_packs(self._job):
            pack(self._job, lambda: self._stop.received is not None)
        if self._stop.received is not None:
            return self._stopped(self._stop.received)
        return outcome(self._job, record, ledger, *lines)

    def _stopped(self, stop: Signals) -> Outcome:
        line = f"stopped by {stop.name}: what is committed stays, the same command continues"
        return Outcome(128 + stop, (line,))

    def _new_record(self) -> RunRecord:
        job = self._job
        return RunRecord(
            state=RunState.RUNNING,
            fingerprint=job.fingerprint,
            identity=job.identity,
            options=job.options.shown(),
            clock=job.clock.isoformat(),
            shards=len(job.plan.shards),
            started=_now(),
            warnings=list(job.warnings),
            directory=str(Path.cwd()),
        )

    def _greet(self, resumed: Ledger) -> None:
        job, done = self._job, resumed.totals
        self._reporter.say(
            f"{counted(job.plan.rows, 'row')} of {counted(len(job.plan.files), 'file')} in "
            f"{counted(len(job.plan.shards), 'shard')}, job {job.fingerprint[:12]}"
        )
        if resumed.committed:
            self._reporter.say(
                f"resumed: {counted(done.rows_in, 'row')} of "
                f"{counted(len(resumed.committed), 'shard')} were committed before and are skipped"
            )
        if job.options.on_error is OnError.FAIL and resumed.examples:
            code, example = next(iter(resumed.examples.items()))
            raise JobError(
                f"--on-error fail: {example.source} row {example.row_index} was rejected before "
                f"({code}): {example.message}"
            )

    def _work(self, resumed: Ledger) -> None:
        """Let a fleet commit every open shard, or those it can before a signal."""
        job = self._job
        pacer = Pacer(job.plan.rows)
        fleet = self._fleet(Work(job.plan.shards, resumed.committed, resumed.totals))
        try:
            fleet.start()
            self._stop.listen()
            while self._stop.received is None:
                snapshot = fleet.poll()
                pace = pacer.pace(snapshot)
                self._notes += _say_some(self._reporter, snapshot.notes, said=self._notes)
                if snapshot.failure is not None:
                    raise JobError(snapshot.failure)
                if snapshot.finished:
                    self._reporter.finish(snapshot, pace)
                    return
                if snapshot.workers:
                    self._reporter.show(snapshot, pace)
                self._lock.beat(snapshot, pace)
        finally:
            fleet.close()

    def _fleet(self, work: Work) -> Fleet:
        job, options = self._job, self._job.options
        shared = ShardJob(folder=job.folder, options=job.worker_options, metadata=job.metadata)
        setup = WorkerSetup(job.bundle, shared, job.clock, self._log_format)
        if options.local:
            return LocalFleet(work, setup)
        quieten_ray()
        from promptmill.workers.fleet import RayFleet  # slow to import, and --local needs no Ray

        return RayFleet(
            work,
            setup,
            workers=options.workers,
            address=options.address,
            say=self._reporter.say,
        )

    def _finished(self, record: RunRecord, resumed: Ledger, ledger: Ledger) -> RunRecord:
        if ledger.broken:
            raise JobError(
                f"The files of {counted(len(ledger.broken), 'committed shard')} are gone (shard "
                f"{ledger.broken[0]} first). The same command does them again."
            )
        check_inputs(self._job.plan, self._job.planned_at)
        duplicates = self._duplicates(ledger)
        totals = ledger.run_totals(rows_resumed=resumed.totals.rows_in, duplicate_ids=duplicates)
        return replace(record, state=RunState.FINISHED, finished=_now(), totals=totals)

    def _duplicates(self, ledger: Ledger) -> int:
        """Ids that two shards have; within one they were rejected."""
        if len(ledger.committed) < 2:
            return 0
        parts = [self._job.folder.part(shard) for shard in ledger.committed]
        found = find_duplicates(parts, ledger.totals.rows_ok)
        if found.count:
            self._reporter.say(
                f"warning: {found.count:,} rows have an id that a row of another shard has, too "
                f"({', '.join(found.names)})"
            )
        return found.count


def _say_some(reporter: Reporter, lines: Sequence[str], *, said: int = 0) -> int:
    """Say lines as long as there were not too many of them before; how many there were now."""
    for number, line in enumerate(lines, said + 1):
        if number <= MOST_NOTES:
            reporter.say(line)
        elif number == MOST_NOTES + 1:
            reporter.say("further notes of this kind are not shown")
    return len(lines)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

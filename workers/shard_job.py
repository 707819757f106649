"""One attempt at one shard: read, encode, write, publish. The same with and without Ray.

Everything goes to temporary names first (`shard_files.py`). A shard is committed when its receipt
stands, which is published last.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.engines.base import EngineMismatch
from promptmill.pipeline.read.rows import ShardReader
from promptmill.pipeline.write.names import new_attempt
from promptmill.pipeline.write.parts import PartWriter
from promptmill.pipeline.write.rejects import RejectWriter
from promptmill.schemas.errors import ErrorCode, JobError, RowError
from promptmill.schemas.options import JobOptions, OnError
from promptmill.schemas.request import EncodedBatch, RawRow, Reject
from promptmill.schemas.run import EngineUse, Receipt, RejectExample, Totals
from promptmill.workers.batches import BATCH_ROWS, batches
from promptmill.workers.counts import add_examples, batch_totals
from promptmill.workers.figures import FigureCounter
from promptmill.workers.leases import Blame, Failure, Lease, RowRange
from promptmill.workers.logs import RUN_LENGTH
from promptmill.workers.output_folder import OutputFolder
from promptmill.workers.shard_files import LeaseLost, ShardFiles
from promptmill.workers.trial import Trial

log = logging.getLogger(__name__)

AHEAD_SECONDS = 1.0
AHEAD_ROWS = 4 * BATCH_ROWS
"""What is announced at once at most: after a death all of it is gone through row by row."""

Begin = Callable[[RowRange | None, Totals], bool]
"""Told before rows are taken which ones come and what is done; False: the lease is void."""


DEEDS = {
    ErrorCode.WORKER_CRASHED: "ended its worker process",
    ErrorCode.MEMORY_EXCEEDED: "needed more memory than a worker may take",
}


class EncodeFailed(Exception):
    """Our own failure on the rows at work, one of which must be to blame."""

    @property
    def failure(self) -> Failure:
        """What to tell the queue."""
        return Failure.MEMORY if isinstance(self.__cause__, MemoryError) else Failure.ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardJob:
    """What is the same for all shards of a run."""

    folder: OutputFolder
    options: JobOptions
    metadata: dict[str, str]
    """Goes into the footer of every part."""

    @property
    def run(self) -> str:
        """The run's name in logs and metrics."""
        return self.metadata["fingerprint"][:RUN_LENGTH]


def run_shard(
    lease: Lease, encoder: Encoder, job: ShardJob, begin: Begin, trial: Trial | None = None
) -> Receipt:
    """Do a shard and commit it.

    Args:
        lease: the shard, and which of its rows need care.
        encoder: loaded for the job's model and options.
        job: what is the same for all shards.
        begin: see `Begin`.
        trial: where rows that need care are tried first; None: nowhere.

    Returns:
        The receipt that stands, which may be that of an earlier attempt.

    Raises:
        LeaseLost: the attempt was given up.
        EncodeFailed: it ended on the rows that were announced last.
        EngineMismatch: a fast engine differed; the shard is to be done with the reference.
        JobError: the run must end: the input changed, no chat template can be resolved, or a
            reject under `--on-error fail`.
    """
    committed = job.folder.read_receipt(lease.shard.index)
    return committed or _Attempt(lease, encoder, job, begin, trial).run()


class _Attempt:
    """One attempt and what it has counted so far."""

    def __init__(
        self,
        lease: Lease,
        encoder: Encoder,
        job: ShardJob,
        begin: Begin,
        trial: Trial | None,
    ) -> None:
        self._lease, self._encoder, self._job, self._begin = lease, encoder, job, begin
        self._trial = trial
        self._files = ShardFiles(job.folder, lease.shard.index, new_attempt())
        self._totals = Totals()
        self._examples: dict[str, RejectExample] = {}
        self._figures = FigureCounter(job.folder.shards, content=job.options.report_content)
        self._started = time.time()
        self._watch = encoder.start_shard()
        self._began = time.monotonic()
        self._announced = RowRange(0, 0)
        self._engine_before = replace(encoder.tokenizer.engine.counts)

    def run(self) -> Receipt:
        """See `run_shard`."""
        files, options, shard = self._files, self._job.options, self._lease.shard
        reader = ShardReader(shard, options)
        with (
            PartWriter(
                files.temporary(files.part), options=options, metadata=self._job.metadata
            ) as part,
            RejectWriter(files.temporary(files.rejects)) as rejects,
        ):
            for encoded in self._encoded(reader):
                with self._watch.step("write"):
                    part.write(encoded.rows)
                    rejects.write(encoded.rejects)
            self._announce(None)
            with self._watch.step("write"):
                part_info, rejects_info = part.close(), rejects.close()
            written = files.publish(files.part, part_info.bytes, part_info.sha256)
            refused = None
            if rejects_info.rows:
                refused = files.publish(files.rejects, rejects_info.bytes, rejects_info.sha256)
            else:
                rejects.abort()
                files.rejects.unlink(missing_ok=True)  # a dead attempt's
        receipt = Receipt(
            shard=shard.index,
            attempt=files.attempt,
            totals=self._spent(reader, part_info.bytes + rejects_info.bytes),
            part=written,
            rejects=refused,
            input_sha256=reader.sha256(),
            examples=self._examples,
            figures=self._figures.figures(),
            started=self._started,
            finished=time.time(),
            engine=self._engine_use(),
            worker=f"{socket.gethostname()}/{os.getpid()}",
        )
        return files.commit(receipt)

    def _spent(self, reader: ShardReader, written: int) -> Totals:
        """The totals, with what the shard cost."""
        seconds = {step: round(spent, 4) for step, spent in self._watch.seconds.items()}
        return replace(
            self._totals,
            bytes_read=reader.bytes_read,
            bytes_written=written,
            seconds=seconds,
            cpu_seconds=round(self._watch.cpu_seconds(), 4),
        )

    def _engine_use(self) -> EngineUse:
        engine, before = self._encoder.tokenizer.engine, self._engine_before
        asked = engine.counts.cache_asked - before.cache_asked
        hits = engine.counts.cache_hit - before.cache_hit
        return EngineUse(
            name=engine.name,
            rows_checked=engine.counts.rows_checked - before.rows_checked,
            rows_redone=engine.counts.rows_redone - before.rows_redone,
            segment_cache_hits=hits / asked if asked else None,
        )

    def _encoded(self, reader: ShardReader) -> Iterator[EncodedBatch]:
        """The shard batch by batch, counted."""
        lease = self._lease
        alone = [*lease.careful, *(RowRange(row, row + 1) for row in lease.guilty)]
        for batch in self._watch.each("read", batches(reader, alone)):
            self._announce_batch(batch)
            if (blame := self._blame(batch[0])) is not None:
                encoded = EncodedBatch([], [_untouched(batch[0], blame)])
            else:
                encoded = self._encode(batch)
            self._totals += batch_totals(len(batch), encoded)
            self._figures.add(encoded)
            content = self._job.options.report_content
            add_examples(self._examples, encoded.rejects, content=content)
            for reject in encoded.rejects:
                self._check_fatal(reject)
            yield encoded

    def _blame(self, row: RawRow) -> Blame | None:
        """Whether a row is not to be encoded: what is known, and what a trial says."""
        blame = self._lease.guilty.get(row.row_index)
        careful = any(start <= row.row_index < stop for start, stop in self._lease.careful)
        if blame is None and careful and self._trial is not None:
            blame = self._trial.blame(row)
        return blame

    def _encode(self, batch: list[RawRow]) -> EncodedBatch:
        try:
            return self._encoder.encode(batch)
        except (EngineMismatch, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic in Rust is no Exception
            log.exception("rows %d to %d failed", batch[0].row_index, batch[-1].row_index)
            raise EncodeFailed(type(error).__name__) from error

    def _announce_batch(self, batch: list[RawRow]) -> None:
        """Say that these rows come, and those of about a second after them.

        One queue serves all workers: a call for every batch would be too many.
        """
        rows, alone = RowRange(batch[0].row_index, batch[-1].row_index + 1), len(batch) == 1
        if not alone and self._announced.start <= rows.start and rows.stop <= self._announced.stop:
            return
        if not alone:
            pace = self._totals.lines / max(time.monotonic() - self._began, 1e-3)
            ahead = min(int(pace * AHEAD_SECONDS), AHEAD_ROWS)
            rows = RowRange(rows.start, max(rows.stop, rows.start + ahead))
        self._announced = rows
        self._announce(rows)

    def _announce(self, rows: RowRange | None) -> None:
        if not self._begin(rows, self._totals):
            raise LeaseLost

    def _check_fatal(self, reject: Reject) -> None:
        """Some rejects are about the job, or the job does not want any."""
        error = reject.error
        if error.code is ErrorCode.NO_CHAT_TEMPLATE:
            row = f"{reject.row.source} row {reject.row.row_index}"
            raise JobError(
                f"{row} is a chat, and the model has no template for it. {error.message}"
            )
        if self._job.options.on_error is OnError.FAIL:
            raise JobError(
                f"--on-error fail: {reject.row.source} row {reject.row.row_index} was rejected "
                f"({error.code}): {error.message}"
            )


def _untouched(row: RawRow, blame: Blame) -> Reject:
    """A row that ended attempts, alone in its batch."""
    what = DEEDS.get(blame.code, "failed")
    message = (
        f"Alone in its batch, this row {what} again and again ({blame.reason}). Look at its size "
        "and at the media it names; the worker's log may say more."
    )
    return Reject(row, RowError(blame.code, message))

"""Everything a report shows, read from a run's folder: its record, its receipts, its driver."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from promptmill.pipeline.reuse import BlockCounter
from promptmill.schemas.figures import Cuts, Figures
from promptmill.schemas.run import EngineUse, Receipt, RunRecord, RunState
from promptmill.workers.driver_lock import DriverState, read_driver, runs_here
from promptmill.workers.ledger import Ledger, read_ledger
from promptmill.workers.output_folder import OutputFolder, no_run_in

HASHES = 1 << 16
"""Of blocks, held at once."""


class Ending(StrEnum):
    """How a run stands."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Activity:
    """A shard's time at its worker."""

    started: float
    finished: float
    tokens: int
    rows: int


@dataclass(slots=True)
class Sums:
    """The receipts of a run, added up. Grows with shards (four numbers each), not with rows."""

    before: Counter[int] = field(default_factory=Counter)
    after: Counter[int] = field(default_factory=Counter)
    refused: Counter[int] = field(default_factory=Counter)
    longest: int = 0
    cuts: dict[str, Cuts] = field(default_factory=dict)
    media_tokens: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    not_compared: int = 0
    cut: BlockCounter = field(default_factory=lambda: BlockCounter(HASHES))
    """Blocks of rows that were cut, as they are stored; in `other` with the other side cut."""
    other: BlockCounter = field(default_factory=lambda: BlockCounter(HASHES))
    as_stored: BlockCounter = field(default_factory=lambda: BlockCounter(HASHES))
    """Of all rows, as in `other_way`."""
    other_way: BlockCounter = field(default_factory=lambda: BlockCounter(HASHES))
    activities: list[Activity] = field(default_factory=list)
    workers: set[str] = field(default_factory=set)
    engines: dict[str, EngineUse] = field(default_factory=dict)

    def add(self, receipt: Receipt) -> None:
        """Count a shard."""
        self._add_figures(receipt.figures)
        totals = receipt.totals
        self.activities.append(
            Activity(receipt.started, receipt.finished, totals.tokens, totals.rows_in)
        )
        self.workers.add(receipt.worker)
        name = receipt.engine.name
        used = self.engines.get(name, EngineUse(name=name))
        self.engines[name] = EngineUse(
            name=name,
            rows_checked=used.rows_checked + receipt.engine.rows_checked,
            rows_redone=used.rows_redone + receipt.engine.rows_redone,
        )

    def _add_figures(self, figures: Figures) -> None:
        self.before.update(figures.before)
        self.after.update(figures.after)
        self.refused.update(figures.refused)
        self.longest = max(self.longest, figures.longest)
        for side, cuts in figures.cuts.items():
            self.cuts[side] = self.cuts.get(side, Cuts()) + cuts
        self.media_tokens.update(figures.media_tokens)
        self.warnings.update(figures.warnings)
        self.not_compared += figures.cuts_not_compared
        for blocks, counters in (
            (figures.whole_blocks, (self.as_stored, self.other_way)),
            (figures.cut_blocks, (self.as_stored, self.cut)),
            (figures.other_blocks, (self.other_way, self.other)),
        ):
            if blocks is not None:
                for counter in counters:
                    counter.merge(blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What is known of a run."""

    folder: OutputFolder
    record: RunRecord
    ledger: Ledger
    sums: Sums
    ending: Ending
    driver: DriverState | None
    """Who works on it; None where nobody does."""


def gather(folder: OutputFolder, *, over: bool = False) -> Gathered:
    """Read a run's folder.

    Args:
        folder: of the run.
        over: the run ends now, although its driver still holds the folder.

    Raises:
        JobError: no run was started there, or its record is damaged.
    """
    record = folder.read_record()
    if record is None:
        raise no_run_in(folder.root)
    driver = None if over else read_driver(folder)
    if driver is not None and runs_here(driver) is False:
        driver = None
    sums = Sums()
    ledger = read_ledger(folder, sums.add)
    return Gathered(
        folder=folder,
        record=record,
        ledger=ledger,
        sums=sums,
        ending=_ending(record, driver),
        driver=driver,
    )


def _ending(record: RunRecord, driver: DriverState | None) -> Ending:
    if record.state is RunState.FINISHED:
        return Ending.FINISHED
    if driver is not None:
        return Ending.RUNNING
    return Ending.STOPPED if record.failure is None else Ending.FAILED

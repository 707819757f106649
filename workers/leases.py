"""What passes between the queue, its workers and the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from promptmill.schemas.errors import ErrorCode
from promptmill.schemas.run import Totals
from promptmill.schemas.shard import Shard


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done."""

    shards: Sequence[Shard]
    """All of the plan, by index."""
    committed: Sequence[int] = ()
    """Indices of shards whose receipts exist already."""
    resumed: Totals = field(default_factory=Totals)
    """The counts of those receipts."""


class Failure(StrEnum):
    """What an attempt that ended in an error says about the next one."""

    RUN = "run"
    """It would end in the same way, and so would every shard's: the run must end."""
    ROWS = "rows"
    """It is about the rows at work."""
    MEMORY = "memory"
    """It is about the rows at work: they need more memory than a worker may take."""
    ENGINE = "engine"
    """A fast engine differed from the reference: every worker goes on with the reference."""
    ATTEMPT = "attempt"
    """It may go well the next time (disk, network)."""
    LEAVING = "leaving"
    """Nothing is wrong: the worker is asked to go."""


class Blame(NamedTuple):
    """Why a row is rejected untouched."""

    code: ErrorCode
    reason: str


class RowRange(NamedTuple):
    """A half-open range of `row_index`."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Lease:
    """One attempt at one shard."""

    id: int
    shard: Shard
    sign_of_life: float = 5.0
    """Seconds between two renewals."""
    careful: tuple[RowRange, ...] = ()
    """Rows to take one at a time: a worker died on them."""
    guilty: dict[int, Blame] = field(default_factory=dict)
    """Rows to reject untouched, by `row_index`."""
    reference_engine: bool = False
    """Tokenize with the reference: a fast engine was found to differ from it in this run."""


class Order(StrEnum):
    """What a worker is told when there is no lease for it."""

    WAIT = "wait"
    """Every open shard is leased; one may come back, or turn out to be slow."""
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The queue as the driver sees it."""

    totals: Totals
    """Committed shards and, so far, those in work."""
    shards: int
    shards_done: int
    shards_waiting: int = 0
    """Open shards that no worker has."""
    workers: int
    """Workers that said they are ready and are not known to be dead."""
    failure: str | None
    """Why the run must stop; None while it need not."""
    silent: tuple[str, ...]
    """Workers whose lease ran out since the last snapshot."""
    notes: tuple[str, ...]
    """What happened since the last snapshot, for the log."""
    held: tuple[str, ...]
    """Who holds what, the oldest first, a few of them."""

    @property
    def finished(self) -> bool:
        """Whether every shard is committed."""
        return self.shards_done == self.shards


class ShardQueue(Protocol):
    """The side of the queue that workers see; see `JobQueue` for what the calls mean."""

    def hello(self, worker: str, note: str) -> None:
        """A worker is ready."""

    def note(self, text: str) -> None:
        """Something for the log, said once whoever says it."""

    def lease(self, worker: str) -> Lease | Order:
        """Ask for work."""

    def begin(self, lease: int, rows: RowRange | None, done: Totals) -> bool:
        """Say which rows come next and what is done so far."""

    def renew(self, lease: int) -> bool:
        """Say that the worker is alive."""

    def commit(self, lease: int, shard: int, totals: Totals) -> None:
        """The shard's receipt is published."""

    def fail(self, lease: int, failure: Failure, message: str) -> None:
        """The attempt ended in an error."""

"""What a run writes about itself: receipts, one a shard, and the record of the run.

Read and written as JSON (msgspec decodes these dataclasses and refuses what does not fit).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from promptmill.schemas.figures import Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Counts of a batch, a shard or a run; they add up."""

    lines: int = 0
    """Lines or rows read, blank lines included."""
    blank_lines: int = 0
    rows_in: int = 0
    """Prompts: rows out plus rejects. A row with several prompts counts as several."""
    rows_ok: int = 0
    rows_rejected: int = 0
    rejects: dict[str, int] = field(default_factory=dict)
    """Rejected prompts by error code."""
    rows_truncated: int = 0
    double_bos_rows: int = 0
    """Rows whose prompt starts with two BOS ids."""
    tokens: int = 0
    """Stored ids."""
    media: dict[str, int] = field(default_factory=dict)
    """Media items by modality."""
    bytes_read: int = 0
    """Stored input bytes; counted, as all that follows, when a shard is done."""
    bytes_written: int = 0
    """Of parts and rejects."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Wall time of the workers by step: read, parse, render, tokenize, expand, fit, write."""
    cpu_seconds: float = 0.0
    """Processor time of the workers."""

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            lines=self.lines + other.lines,
            blank_lines=self.blank_lines + other.blank_lines,
            rows_in=self.rows_in + other.rows_in,
            rows_ok=self.rows_ok + other.rows_ok,
            rows_rejected=self.rows_rejected + other.rows_rejected,
            rejects=_add_counts(self.rejects, other.rejects),
            rows_truncated=self.rows_truncated + other.rows_truncated,
            double_bos_rows=self.double_bos_rows + other.double_bos_rows,
            tokens=self.tokens + other.tokens,
            media=_add_counts(self.media, other.media),
            bytes_read=self.bytes_read + other.bytes_read,
            bytes_written=self.bytes_written + other.bytes_written,
            seconds=_add_seconds(self.seconds, other.seconds),
            cpu_seconds=round(self.cpu_seconds + other.cpu_seconds, 4),
        )

    def __sub__(self, other: Totals) -> Totals:
        """Take away what is part of it."""
        return Totals(
            lines=self.lines - other.lines,
            blank_lines=self.blank_lines - other.blank_lines,
            rows_in=self.rows_in - other.rows_in,
            rows_ok=self.rows_ok - other.rows_ok,
            rows_rejected=self.rows_rejected - other.rows_rejected,
            rejects=_take_counts(self.rejects, other.rejects),
            rows_truncated=self.rows_truncated - other.rows_truncated,
            double_bos_rows=self.double_bos_rows - other.double_bos_rows,
            tokens=self.tokens - other.tokens,
            media=_take_counts(self.media, other.media),
            bytes_read=self.bytes_read - other.bytes_read,
            bytes_written=self.bytes_written - other.bytes_written,
            seconds=_take_seconds(self.seconds, other.seconds),
            cpu_seconds=round(self.cpu_seconds - other.cpu_seconds, 4),
        )


def _add_counts(one: dict[str, int], two: dict[str, int]) -> dict[str, int]:
    return dict(sorted((Counter(one) + Counter(two)).items())) if one or two else {}


def _take_counts(one: dict[str, int], two: dict[str, int]) -> dict[str, int]:
    return dict(sorted((Counter(one) - Counter(two)).items())) if two else one


def _add_seconds(one: dict[str, float], two: dict[str, float]) -> dict[str, float]:
    if not one or not two:
        return one or two
    return {step: round(one.get(step, 0.0) + two.get(step, 0.0), 4) for step in {**one, **two}}


def _take_seconds(one: dict[str, float], two: dict[str, float]) -> dict[str, float]:
    return _add_seconds(one, {step: -spent for step, spent in two.items()})


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A published file."""

    name: str
    size: int
    """Bytes."""
    sha256: str


@dataclass(frozen=True, slots=True)
class RejectExample:
    """Where to find the first reject of a kind."""

    source: str
    row_index: int
    message: str
    content: str | None = None
    """How the row begins; only with --report-content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineUse:
    """What tokenized a shard."""

    name: str
    rows_checked: int = 0
    """Rows of a fast engine that were compared with the reference, and equal to it."""
    rows_redone: int = 0
    """Rows that a fast engine left to the reference."""
    segment_cache_hits: float | None = None
    """Share of the text's bytes whose ids a cache had; None where none was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A shard is committed when its receipt stands under its name; it is written last."""

    shard: int
    attempt: str
    """Names the attempt that wrote it."""
    totals: Totals
    part: WrittenFile
    rejects: WrittenFile | None
    """None where every row went well."""
    input_sha256: str
    """Of the input bytes that the shard really read."""
    examples: dict[str, RejectExample] = field(default_factory=dict)
    """The first reject of every error code."""
    figures: Figures = field(default_factory=Figures)
    started: float
    """Unix time at the worker, as `finished`."""
    finished: float
    engine: EngineUse
    worker: str
    """Host and process id."""


class RunState(StrEnum):
    """How far a run is, as its record says."""

    RUNNING = "running"
    """Or stopped before its end: the same command continues."""
    FINISHED = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTotals:
    """The counts of a whole run, as `run.json` shows them."""

    rows_in: int
    rows_ok: int
    rows_rejected: int
    rejects: dict[str, int]
    rows_truncated: int
    rows_resumed: int
    """Prompts that an earlier start of the same job had already committed."""
    double_bos_rows: int
    duplicate_ids: int
    """Token rows whose id another shard has, too."""
    blank_lines: int
    tokens: int
    media: dict[str, int]
    bytes_read: int = 0
    bytes_written: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    """Wall time of the workers by step."""
    cpu_seconds: float = 0.0
    """Processor time of the workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """`run.json`: what the job is and, at its end, what came of it."""

    state: RunState
    fingerprint: str
    """sha256 of `identity`."""
    identity: Mapping[str, object]
    """Everything that decides the bytes of the output."""
    options: Mapping[str, object]
    """Every option as resolved."""
    clock: str
    """What templates were told the time is (ISO 8601)."""
    shards: int
    started: str
    """First start of the job (ISO 8601)."""
    finished: str | None = None
    totals: RunTotals | None = None
    warnings: list[str] = field(default_factory=list)
    directory: str = ""
    """Where the job was started: relative names in the options begin there."""
    failure: str | None = None
    """Why the last start failed; None where it did not."""

"""How fast a run goes and how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from promptmill.schemas.run import Totals
from promptmill.workers.leases import Snapshot

RATE_SECONDS = 2.0
"""What was done in less time says nothing of how fast it goes."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast it goes and how far it is."""

    lines: int
    lines_total: int
    percent: int
    """100 when every shard is committed, and not before."""
    rows_per_second: float | None = None
    tokens_per_second: float | None = None
    seconds_left: float | None = None
    """None while nothing is known, as are the rates."""

    def with_committed(self, lines: int) -> Pace:
        """The pace of an unfinished run in whose folder there are so many committed lines now."""
        lines = max(self.lines, lines)
        percent = max(self.percent, _percent(lines, self.lines_total))
        return replace(self, lines=lines, percent=percent)


class Pacer:
    """Measures from the first look with a ready worker on, without what was done before.

    Args:
        lines_total: lines or rows of the input.
    """

    def __init__(self, lines_total: int, now: Callable[[], float] = time.monotonic) -> None:
        self._total, self._now = lines_total, now
        self._start: float | None = None
        self._before = Totals()

    def pace(self, snapshot: Snapshot) -> Pace:
        """The pace up to now."""
        now, totals = self._now(), snapshot.totals
        if self._start is None and snapshot.workers:
            self._start, self._before = now, totals
        pace = Pace(
            lines=totals.lines,
            lines_total=self._total,
            percent=100 if snapshot.finished else _percent(totals.lines, self._total),
        )
        seconds = 0.0 if self._start is None else now - self._start
        if seconds < RATE_SECONDS:
            return pace
        # An attempt that is given up takes its lines back.
        rows = max(0, totals.lines - self._before.lines) / seconds
        return replace(
            pace,
            rows_per_second=rows,
            tokens_per_second=max(0, totals.tokens - self._before.tokens) / seconds,
            seconds_left=max(0, self._total - totals.lines) / rows if rows > 0 else None,
        )


def _percent(lines: int, lines_total: int) -> int:
    return min(99, 100 * lines // (lines_total or 1))


def pace_line(pace: Pace) -> str:
    """How far it is and how fast, for those who count shards themselves."""
    return ", ".join([far(pace), *rates(pace), *left(pace)])


def far(pace: Pace) -> str:
    """How far it is."""
    return f"{pace.percent} % {pace.lines:,} of {pace.lines_total:,} rows"


def rates(pace: Pace) -> Iterator[str]:
    """How fast it goes, where that is known."""
    if pace.rows_per_second is not None:
        yield f"{pace.rows_per_second:,.0f} rows/s"
    if pace.tokens_per_second is not None:
        yield f"{pace.tokens_per_second:,.0f} tokens/s"


def left(pace: Pace) -> Iterator[str]:
    """How long it will take, where that is known."""
    if pace.seconds_left is not None:
        yield f"{duration(pace.seconds_left)} left"


def duration(seconds: float) -> str:
    """`3 h 20 min`, `4 min 5 s`, `12 s`."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600:,} h {whole % 3600 // 60} min"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"

"""How a run tells a person how far it is: a bar on a terminal, few plain lines anywhere else."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol, TextIO

from promptmill.schemas.redact import redacted
from promptmill.workers.leases import Snapshot
from promptmill.workers.logs import LogFormat, json_line
from promptmill.workers.pace import Pace, far, left, rates

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

FIRST_INTERVAL_SECONDS = 5.0
INTERVAL_GROWTH = 0.05
"""An interval is at least this part of the time so far: a log stays short however long the run."""


class Reporter(Protocol):
    """Where a run's progress and notes go."""

    def say(self, line: str) -> None:
        """A line for the log, at once."""

    def show(self, snapshot: Snapshot, pace: Pace) -> None:
        """The progress, if it is time for it."""

    def finish(self, snapshot: Snapshot, pace: Pace) -> None:
        """The last progress of a run."""

    def close(self) -> None:
        """Leave the terminal as it was."""


def reporter(
    stream: TextIO = sys.stderr, *, quiet: bool = False, form: LogFormat = LogFormat.TEXT
) -> Reporter:
    """A bar where `stream` is a terminal, plain lines otherwise; warnings alone where quiet."""
    if form is LogFormat.JSON:
        return JsonReporter(stream)
    if quiet:
        return QuietReporter(stream)
    drawn = stream.isatty() and os.environ.get("TERM") != "dumb"
    return BarReporter() if drawn else LineReporter(stream)


class QuietReporter:
    """Lets warnings through."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def say(self, line: str) -> None:
        """See `Reporter`."""
        if line.startswith("warning:"):
            self._stream.write(f"{redacted(line)}\n")
            self._stream.flush()

    def show(self, snapshot: Snapshot, pace: Pace) -> None:
        """See `Reporter`."""

    def finish(self, snapshot: Snapshot, pace: Pace) -> None:
        """See `Reporter`."""

    def close(self) -> None:
        """See `Reporter`."""


class LineReporter:
    """One line an interval, no control characters."""

    def __init__(self, stream: TextIO, now: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._now = now
        self._start = self._last = now()
        self._lines = -1

    def say(self, line: str) -> None:
        """See `Reporter`."""
        self._stream.write(f"{redacted(line)}\n")
        self._stream.flush()

    def show(self, snapshot: Snapshot, pace: Pace) -> None:
        """See `Reporter`."""
        now = self._now()
        interval = max(FIRST_INTERVAL_SECONDS, INTERVAL_GROWTH * (now - self._start))
        if now - self._last >= interval:
            self._last = now
            stalled = snapshot.totals.lines == self._lines
            self._lines = snapshot.totals.lines
            self._tell(snapshot, pace, stalled=stalled)

    def finish(self, snapshot: Snapshot, pace: Pace) -> None:
        """See `Reporter`."""
        self._tell(snapshot, pace, stalled=False)

    def close(self) -> None:
        """See `Reporter`."""

    def _tell(self, snapshot: Snapshot, pace: Pace, *, stalled: bool) -> None:
        held = f"; no progress: {', '.join(snapshot.held)}" if stalled else ""
        self.say(progress_line(snapshot, pace) + held)


class JsonReporter(LineReporter):
    """One JSON object a line."""

    def say(self, line: str) -> None:
        """See `Reporter`."""
        level = "warning" if line.startswith("warning:") else "info"
        self._write(json_line(level, line.removeprefix("warning: "), event="note"))

    def _tell(self, snapshot: Snapshot, pace: Pace, *, stalled: bool) -> None:
        totals = snapshot.totals
        self._write(
            json_line(
                "warning" if stalled else "info",
                progress_line(snapshot, pace),
                event="progress",
                percent=pace.percent,
                lines=pace.lines,
                lines_total=pace.lines_total,
                rows_per_second=_rounded(pace.rows_per_second),
                tokens_per_second=_rounded(pace.tokens_per_second),
                rows_ok=totals.rows_ok,
                rows_rejected=totals.rows_rejected,
                rows_truncated=totals.rows_truncated,
                tokens=totals.tokens,
                shards=snapshot.shards,
                shards_done=snapshot.shards_done,
                workers=snapshot.workers,
                held="; ".join(snapshot.held) if stalled else None,
            )
        )

    def _write(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()


class BarReporter:
    """A bar on the terminal; lines are printed above it."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def say(self, line: str) -> None:
        """See `Reporter`."""
        if self._bar is None:
            sys.stderr.write(f"{redacted(line)}\n")
        else:
            self._bar.console.print(redacted(line), markup=False, highlight=False)

    def show(self, snapshot: Snapshot, pace: Pace) -> None:
        """See `Reporter`."""
        if self._bar is None or self._task is None:
            self._open()
        assert self._bar is not None
        assert self._task is not None
        self._bar.update(
            self._task, total=pace.lines_total, completed=pace.lines, tail=_tail(snapshot, pace)
        )

    def finish(self, snapshot: Snapshot, pace: Pace) -> None:
        """See `Reporter`."""
        self.show(snapshot, pace)

    def close(self) -> None:
        """See `Reporter`."""
        self._stack.close()
        self._bar = None

    def _open(self) -> None:
        from rich.console import Console  # only where there is a terminal to draw on
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        self._bar = self._stack.enter_context(
            Progress(
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.fields[tail]}"),
                console=Console(stderr=True),
            )
        )
        self._task = self._bar.add_task("rows", tail="")


def progress_line(snapshot: Snapshot, pace: Pace) -> str:
    """The progress in one line."""
    return f"{far(pace)}, {_tail(snapshot, pace)}"


def _tail(snapshot: Snapshot, pace: Pace) -> str:
    totals = snapshot.totals
    counts = (
        f"{snapshot.shards_done:,} of {snapshot.shards:,} shards",
        f"{totals.rows_rejected:,} rejected",
        f"{totals.rows_truncated:,} truncated",
    )
    return ", ".join([*rates(pace), *counts, *left(pace)])


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 1)

"""`promptmill status --watch`: looks at a run's folder again and again until the run is over."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from promptmill.pipeline.storage.place import Place
from promptmill.schemas.errors import JobError
from promptmill.workers.output_folder import OutputFolder
from promptmill.workers.progress import FIRST_INTERVAL_SECONDS, INTERVAL_GROWTH
from promptmill.workers.status import Look, look

if TYPE_CHECKING:
    from rich.console import RenderableType

INTERVAL_SECONDS: Final = 2.0
COST_FACTOR: Final = 10
"""The pause is at least so many times as long as the look was: a large run is not slowed down."""
START_SECONDS: Final = 60.0
"""How long a run may take to begin."""

Show = Callable[[Look], None]


def watch(
    root: Place,
    html: Path | None,
    show: Show,
    *,
    start: float = START_SECONDS,
    interval: float = INTERVAL_SECONDS,
) -> None:
    """Show a run's state until it is over.

    Args:
        root: the output folder, which may not be there yet.
        html: a page to write at every look; it reloads itself as long as the run goes on.
        show: takes every look.
        start: seconds to wait for the run to begin.
        interval: seconds between two looks, or more where a look takes long.

    Raises:
        JobError: no run began, or the page would lie in the output folder.
    """
    folder = OutputFolder(root)
    if html is not None:
        _check_outside(folder, html)
    try:
        if folder.read_record() is None:
            waits = f"{root} holds no promptmill run yet; waiting {start:.0f} s for one to begin"
            show(Look((waits,), 0, goes_on=True))
            _wait_for_record(folder, start)
        while True:
            before = time.monotonic()
            seen = look(root)
            if html is not None:
                write_page(folder, html, refresh=seen.goes_on)
            show(seen)
            if not seen.goes_on:
                return
            cost = time.monotonic() - before
            time.sleep(max(interval, COST_FACTOR * cost))
    except KeyboardInterrupt:
        if html is not None:
            write_page(folder, html)
        raise


def write_page(folder: OutputFolder, html: Path, *, refresh: bool = False) -> None:
    """Write the report of a run somewhere else; readers see the old page or the new one.

    Raises:
        JobError: it would lie in the output folder.
    """
    from promptmill.workers.report.gather import gather  # Jinja only where a page is wanted
    from promptmill.workers.report.page import render_page

    _check_outside(folder, html)
    page = render_page(gather(folder), refresh=refresh)
    temporary = html.with_name(f".{html.name}.{os.getpid()}")
    temporary.write_text(page, encoding="utf-8")
    temporary.replace(html)


def _check_outside(folder: OutputFolder, html: Path) -> None:
    if f"{html.absolute()}".startswith(f"{folder.root.absolute()}/"):
        raise JobError(
            f"--html {html} lies in the output folder, where nothing else may be. Name another "
            "place; the report of a run that ended is in _promptmill/report.html."
        )


def _wait_for_record(folder: OutputFolder, seconds: float) -> None:
    end = time.monotonic() + seconds
    while folder.read_record() is None:
        if time.monotonic() > end:
            raise JobError(
                f"{folder.root} holds no promptmill run, and none began in {seconds:.0f} s. Name "
                "the folder that a run writes to."
            )
        time.sleep(0.2)


@contextmanager
def screen(stream: TextIO = sys.stdout) -> Iterator[Show]:
    """Where the lines go: one place on a terminal, line after line anywhere else."""
    if not stream.isatty():
        yield PlainScreen(stream).show
        return
    from rich.console import Console  # slow to import
    from rich.live import Live

    with Live(console=Console(file=stream), auto_refresh=False) as live:
        yield lambda seen: live.update(_drawn(seen), refresh=True)


class PlainScreen:
    """Says what changed, less and less often."""

    def __init__(self, stream: TextIO, now: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._now = stream, now
        self._start = self._last = now()
        self._said: tuple[str, ...] = ()

    def show(self, seen: Look) -> None:
        """Lines that were not said at the last look; the first and the last look at once."""
        now = self._now()
        pause = max(FIRST_INTERVAL_SECONDS, INTERVAL_GROWTH * (now - self._start))
        if self._said and seen.goes_on and now - self._last < pause:
            return
        self._last = now
        for line in seen.lines:
            if line not in self._said:
                self._stream.write(f"{line}\n")
        self._stream.flush()
        self._said = seen.lines


def _drawn(seen: Look) -> RenderableType:
    from rich.console import Group
    from rich.padding import Padding
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    bar = Padding(ProgressBar(100, seen.percent, width=60), 0)  # a bar alone ends no line
    return Group(bar, *map(Text, seen.lines))

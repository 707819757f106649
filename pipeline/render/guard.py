"""A limit on the time that rendering one row may take.

Rows are rendered on a thread of its own while the caller watches. A row that takes too long is
given up and its thread left behind: an exception is raised in it, which ends whatever loops in
Python, as templates do. A single operation that never returns from C cannot be ended, nor noticed
while it holds the interpreter's lock; `stuck` therefore asks for a new process, and workers are
watched from outside as well.
"""

from __future__ import annotations

import ctypes
import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from promptmill.pipeline.engines.base import EngineMismatch
from promptmill.pipeline.render.base import Renderer
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.request import Rendered, Request

log = logging.getLogger(__name__)


class _GivenUp(BaseException):
    """Raised in a thread whose row took too long; no `except Exception` holds it."""


@dataclass(slots=True)
class _Run:
    """Requests that one thread renders, one after the other."""

    requests: Sequence[Request]
    results: list[Rendered | RowError] = field(default_factory=list)
    row: tuple[int, float] = field(default_factory=lambda: (0, time.monotonic()))
    """The row that is being rendered and when it began: one value, so that they always match."""
    done: threading.Event = field(default_factory=threading.Event)
    given_up: bool = False
    mismatch: EngineMismatch | None = None


class GuardedRenderer:
    """Renders batches, each row within a time limit.

    The limit is each row's own, so batches may be of any size and the usual row pays nothing.

    Args:
        renderer: does the work. Once a row was given up, two threads may be in it.
        timeout: seconds for one row; 0: no limit.
    """

    def __init__(self, renderer: Renderer, timeout: float) -> None:
        self._renderer = renderer
        self._timeout = timeout
        self.stuck = False
        """Whether a row was given up. Its thread may still run: replace the process soon."""

    def render_batch(self, requests: Sequence[Request]) -> list[Rendered | RowError]:
        """One result a request, in order; TEMPLATE_TIMEOUT for a row that took too long.

        Raises:
            EngineMismatch: a template's faster way was found to write something else.
        """
        if not self._timeout:
            return [self._render(request) for request in requests]
        results: list[Rendered | RowError] = []
        while len(results) < len(requests):
            results += self._watch(_Run(requests[len(results) :]))
        return results

    def _watch(self, run: _Run) -> list[Rendered | RowError]:
        """The results of a run, or those up to the first row that took too long."""
        thread = threading.Thread(target=self._work, args=(run,), daemon=True, name="render")
        thread.start()
        left = self._timeout
        while not run.done.wait(left):
            row, began = run.row
            left = began + self._timeout - time.monotonic()
            if left <= 0:
                run.given_up = self.stuck = True
                _raise_in(thread)
                return [*run.results[:row], self._too_slow()]
        if run.mismatch is not None:
            raise run.mismatch
        return run.results

    def _work(self, run: _Run) -> None:
        try:
            for index, request in enumerate(run.requests):
                run.row = index, time.monotonic()
                run.results.append(self._render(request))
                if run.given_up:
                    return
            run.done.set()
        except EngineMismatch as error:
            run.mismatch = error
            run.done.set()
        except _GivenUp:
            return

    def _render(self, request: Request) -> Rendered | RowError:
        try:
            return self._renderer.render(request)
        except EngineMismatch:
            raise
        except RowError as error:
            return error
        except Exception as error:  # one row must not take its batch with it
            log.exception("rendering %s failed", request.place)
            return RowError(
                ErrorCode.INTERNAL_ERROR,
                f"promptmill failed to render this row ({type(error).__name__}); the log has the "
                "details. Please report it.",
            )

    def _too_slow(self) -> RowError:
        return RowError(
            ErrorCode.TEMPLATE_TIMEOUT,
            f"The chat template took longer than {self._timeout:g} seconds for this row. Raise "
            "--render-timeout (0: no limit), or use another template.",
        )


def _raise_in(thread: threading.Thread) -> None:
    """Raise `_GivenUp` in a thread, as soon as it executes Python again."""
    ident = ctypes.c_ulong(thread.ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(_GivenUp))

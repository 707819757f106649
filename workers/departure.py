"""A worker that is asked to go (SIGTERM) leaves no shard behind."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Final

GRACE_SECONDS: Final = 20.0
"""What a worker takes after SIGTERM: Kubernetes kills 30 seconds after it, spot machines later."""


class HandedBack(Exception):
    """The attempt is given up because its worker goes."""


class Departure:
    """Whether and since when this process is asked to go.

    Args:
        now: a monotonic clock in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._asked_at: float | None = None

    @property
    def asked(self) -> bool:
        """Whether it is."""
        return self._asked_at is not None

    def listen(self) -> None:
        """Take SIGTERM from here on. For the main thread of a process of our own."""
        signal.signal(signal.SIGTERM, self._note)

    def ask(self) -> None:
        """As the signal does."""
        if self._asked_at is None:
            self._asked_at = self._now()

    def leaves_time(self, since: float, done: int, rows: int) -> bool:
        """Whether an attempt may go on.

        Args:
            since: when it began.
            done: rows that it has done.
            rows: all of its rows.
        """
        if self._asked_at is None:
            return True
        left = self._asked_at + GRACE_SECONDS - self._now()
        return done > 0 and (self._now() - since) / done * (rows - done) <= left

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.ask()

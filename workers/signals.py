"""SIGINT and SIGTERM as a wish that the run's loop looks at.

Raising from a handler would leave Ray's native calls in a state they do not expect, and Ray sets a
SIGTERM handler of its own when it starts; so the loop asks, and the handler is set again then.
"""

from __future__ import annotations

import signal
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignal:
    """While it is entered, the first signal is noted; a second one acts as it did before."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before = {number: signal.getsignal(number) for number in SIGNALS}

    def listen(self) -> None:
        """Set the handlers, also over those of a library that has set its own."""
        for number in SIGNALS:
            signal.signal(number, self._note)

    def __enter__(self) -> StopSignal:
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number)
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

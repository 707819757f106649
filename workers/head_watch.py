"""Whether the head of Ray still answers.

Calls that need it block until Ray ends this process in its own way, a minute after the last sign of
life. What a run can do without it (its queue and its workers talk to each other directly) goes on
in the meantime: a head that is back soon costs nothing.
"""

from __future__ import annotations

import socket
import time
from typing import Final

from promptmill.schemas.errors import JobError

LOOK_SECONDS: Final = 1.0
ANSWER_SECONDS: Final = 2.0
"""For the head to take a connection."""
HEAD_SECONDS: Final = 40.0
"""Without an answer for so long it is taken for dead; Ray itself takes 60."""


class HeadWatch:
    """Looks after one head.

    Args:
        address: its host and port.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._looked = self._answered = time.monotonic()
        self._answers = True

    def answers(self) -> bool:
        """Whether it does, as of at most a second ago.

        Raises:
            JobError: it has not for too long.
        """
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return self._answers
        self._answers = self._connects()
        self._looked = time.monotonic()
        if self._answers:
            self._answered = self._looked
        elif self._looked - self._answered > HEAD_SECONDS:
            raise JobError(
                f"The head of Ray at {self._address} has not answered for {HEAD_SECONDS:.0f} "
                "seconds. Look at its machine and its memory; the same command continues the run."
            )
        return self._answers

    def _connects(self) -> bool:
        host, _, port = self._address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), ANSWER_SECONDS).close()
        except OSError:
            return False
        return True

"""Which workers are ready, and which of them a smaller fleet can do without."""

from __future__ import annotations

IDLE_SECONDS = 15.0
"""A worker that waits so long for work leaves, where there are more than must stay."""


class Roster:
    """The workers that are ready and not known to be dead.

    Args:
        least: so many stay while there is no work for them; None: all.
    """

    def __init__(self, least: int | None) -> None:
        self._least = least
        self._ready: set[str] = set()
        self._idle_since: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._ready)

    def __contains__(self, worker: str) -> bool:
        return worker in self._ready

    def add(self, worker: str) -> None:
        """It is there."""
        self._ready.add(worker)

    def works(self, worker: str) -> None:
        """It has something to do."""
        self._idle_since.pop(worker, None)

    def remove(self, worker: str) -> None:
        """It is gone."""
        self._ready.discard(worker)
        self._idle_since.pop(worker, None)

    def may_leave(self, worker: str, now: float) -> bool:
        """Whether a worker that has nothing to do has waited long enough."""
        idle = now - self._idle_since.setdefault(worker, now)
        return self._least is not None and len(self) > self._least and idle >= IDLE_SECONDS

"""Reporters that show nothing."""

from __future__ import annotations

from promptmill.workers.leases import Snapshot
from promptmill.workers.pace import Pace


class KeptLines:
    """A reporter that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def show(self, snapshot: Snapshot, pace: Pace) -> None:
        pass

    def finish(self, snapshot: Snapshot, pace: Pace) -> None:
        self.lines.append(f"{pace.percent} %")

    def close(self) -> None:
        pass

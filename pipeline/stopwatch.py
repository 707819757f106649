"""Where the time goes: seconds by step, taken once a batch, so that they cost nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class Stopwatch:
    """Adds up the seconds of steps, and the processor time since it was made."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        """Wall time by step."""
        self._cpu = time.process_time()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time what is inside."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def each(self, name: str, items: Iterable[T]) -> Iterator[T]:
        """The items, timing how long each takes to come."""
        iterator = iter(items)
        while True:
            with self.step(name):
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item

    def cpu_seconds(self) -> float:
        """Processor time of the process, all of its threads."""
        return time.process_time() - self._cpu

"""Where the time of a shard goes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from promptmill.schemas.run import Timings

T = TypeVar("T")


class Stopwatch:
    """Adds up the seconds of the steps of one attempt, and the processor time of all of it."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._cpu = time.process_time()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time what is inside."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - start

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

    def timings(self) -> Timings:
        """Up to now; the steps are read, encode and write."""
        return Timings(
            read=round(self._seconds.get("read", 0.0), 4),
            encode=round(self._seconds.get("encode", 0.0), 4),
            write=round(self._seconds.get("write", 0.0), 4),
            cpu=round(time.process_time() - self._cpu, 4),
        )

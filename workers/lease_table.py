"""Who holds what. No call looks at all leases: it costs the same with ten and with ten thousand."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from promptmill.schemas.run import Totals
from promptmill.workers.leases import Lease, RowRange

_Key = TypeVar("_Key")


@dataclass(slots=True, eq=False)
class Held:
    """A lease and what its worker has said so far."""

    lease: Lease
    worker: str
    since: float
    deadline: float
    rows: RowRange | None = None
    done: Totals = field(default_factory=Totals)

    @property
    def shard(self) -> int:
        """The number of its shard."""
        return self.lease.shard.index


class LeaseTable:
    """The leases of open shards, by number, worker, shard, age and deadline.

    Every lease lives equally long without a sign of life, so that the order in which they were
    renewed is the order in which they end.

    Args:
        seconds: how long that is.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._by_number: OrderedDict[int, Held] = OrderedDict()  # the oldest first
        self._by_deadline: OrderedDict[int, Held] = OrderedDict()  # the next to end first
        self._alone: OrderedDict[int, Held] = OrderedDict()  # whose shard nobody else has; oldest
        self._by_worker: dict[str, list[Held]] = {}
        self._by_shard: dict[int, list[Held]] = {}
        self.running = Totals()
        """What the attempts have done so far, where their shard is open."""

    @property
    def shards(self) -> int:
        """Open shards that someone has."""
        return len(self._by_shard)

    def add(self, lease: Lease, worker: str, now: float) -> None:
        """A lease is handed out."""
        held = Held(lease, worker, now, now + self._seconds)
        self._by_number[lease.id] = self._by_deadline[lease.id] = held
        self._by_worker.setdefault(worker, []).append(held)
        others = self._by_shard.setdefault(held.shard, [])
        for other in others:
            self._alone.pop(other.lease.id, None)
        if not others:
            self._alone[lease.id] = held
        others.append(held)

    def get(self, number: int) -> Held | None:
        """A lease by its number; None where it is over."""
        return self._by_number.get(number)

    def renew(self, held: Held, now: float) -> None:
        """A sign of life."""
        held.deadline = now + self._seconds
        self._by_deadline.move_to_end(held.lease.id)

    def progress(self, held: Held, rows: RowRange | None, done: Totals) -> None:
        """What the attempt does next and has done."""
        if done != held.done:
            self.running = self.running - held.done + done
        held.rows, held.done = rows, done

    def remove(self, held: Held) -> bool:
        """A lease is over; whether its shard is open and nobody else has it."""
        number = held.lease.id
        del self._by_number[number], self._by_deadline[number]
        self._alone.pop(number, None)
        _drop(self._by_worker, held.worker, held)
        if held.shard not in self._by_shard:
            return False  # done by another attempt
        self.running -= held.done
        _drop(self._by_shard, held.shard, held)
        others = self._by_shard.get(held.shard, ())
        for other in others:
            self._alone[other.lease.id] = other
            self._alone.move_to_end(other.lease.id, last=False)
        return not others

    def close(self, shard: int) -> None:
        """A shard is done: leases on it count no more, and still end when they fall silent."""
        for held in self._by_shard.pop(shard, ()):
            self.running -= held.done
            held.done = Totals()
            self._alone.pop(held.lease.id, None)

    def of_worker(self, worker: str) -> list[Held]:
        """What a worker holds: one lease, unless it is late with an earlier one."""
        return list(self._by_worker.get(worker, ()))

    def expired(self, now: float) -> Iterator[Held]:
        """Leases whose time is over; each must be removed before the next is asked for."""
        while self._by_deadline:
            held = next(iter(self._by_deadline.values()))
            if held.deadline > now:
                return
            yield held

    def oldest(self, count: int) -> list[Held]:
        """The leases that were handed out first."""
        return list(islice(self._by_number.values(), count))

    def oldest_alone(self, count: int) -> list[Held]:
        """The same of those whose shard nobody else has."""
        return list(islice(self._alone.values(), count))


def _drop(index: dict[_Key, list[Held]], key: _Key, held: Held) -> None:
    left = index[key]
    left.remove(held)
    if not left:
        del index[key]

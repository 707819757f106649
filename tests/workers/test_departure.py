"""A worker that is asked to go finishes its shard, or hands it back."""

from __future__ import annotations

import os
import signal

from clock import Clock
from promptmill.workers.departure import GRACE_SECONDS, Departure


def test_nothing_is_given_up_unasked() -> None:
    assert Departure(Clock(100.0)).leaves_time(0.0, 1, 10**9)


def test_what_can_be_finished_in_time_is_finished() -> None:
    clock = Clock(100.0)
    leaving = Departure(clock)
    leaving.ask()
    clock.seconds += 5
    # 10 rows a second so far, and 15 seconds left
    assert leaving.leaves_time(clock.seconds - 10, 100, 100 + 150)
    assert not leaving.leaves_time(clock.seconds - 10, 100, 100 + 151)
    assert not leaving.leaves_time(clock.seconds, 0, 10), "nothing is known"
    clock.seconds += GRACE_SECONDS
    leaving.ask()
    assert not leaving.leaves_time(clock.seconds - 10, 99, 100), "the time counts from the first"


def test_the_signal_is_heard() -> None:
    before = signal.getsignal(signal.SIGTERM)
    leaving = Departure()
    try:
        leaving.listen()
        os.kill(os.getpid(), signal.SIGTERM)
        assert leaving.asked
    finally:
        signal.signal(signal.SIGTERM, before)

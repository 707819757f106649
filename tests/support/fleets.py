"""Fleets under test, run as a driver runs them."""

from promptmill.workers.leases import Snapshot
from promptmill.workers.run import Fleet


def run_to_end(fleet: Fleet) -> tuple[list[str], Snapshot]:
    """Let a fleet finish its work; what was said before the last look at its queue, and that."""
    notes: list[str] = []
    fleet.start()
    try:
        while not (snapshot := fleet.poll()).finished:
            notes += snapshot.notes
            assert snapshot.failure is None, notes
    finally:
        fleet.close()
    return notes, snapshot

"""The fleet of `--local`: one worker in a thread of this process, the same queue, no Ray."""

from __future__ import annotations

from threading import Thread

from promptmill.workers.leases import Snapshot, Work
from promptmill.workers.queue import JobQueue
from promptmill.workers.work import WorkerSetup

POLL_SECONDS = 0.1
STOP_SECONDS = 10.0
"""A batch is given so long to end after a stop; the process then ends without it."""


class LocalFleet:
    """Runs a queue in this process. The interface is that of `fleet.RayFleet`.

    Args:
        work: what is to be done.
        setup: what the worker is made of.
    """

    def __init__(self, work: Work, setup: WorkerSetup) -> None:
        self._queue, self._setup = JobQueue(work), setup
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, name="worker", daemon=True)

    def start(self) -> None:
        """Start the worker."""
        self._thread.start()

    def poll(self) -> Snapshot:
        """Wait a little, then say how things are.

        Raises:
            JobError: the worker cannot work at all.
        """
        self._thread.join(POLL_SECONDS)
        if self._error is not None:
            raise self._error
        return self._queue.snapshot()

    def close(self) -> None:
        """Stop the worker; what is under way is given up."""
        self._queue.stop()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        try:
            while self._setup.load("1", self._queue).run():
                pass
        except BaseException as error:  # handed to the driver's thread
            self._error = error

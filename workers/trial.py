"""Rows that may kill their process are tried in one of its own before a worker takes them.

    python -m promptmill.workers.trial

is that process. It reads what makes an encoder, then rows, and answers each row with how encoding
it went. How the process ends, if it ends, is what the row's reject says.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, BinaryIO, Final

import psutil

from promptmill.pipeline.engines.base import EngineMismatch
from promptmill.schemas.errors import ErrorCode
from promptmill.schemas.request import RawRow
from promptmill.workers.leases import Blame
from promptmill.workers.tuning import bound_memory, leave_pandas_out, memory_room

if TYPE_CHECKING:
    from promptmill.workers.work import WorkerSetup

TRIES: Final = 2
"""Once could be chance."""
LOAD_SECONDS: Final = 600.0
ROW_SECONDS: Final = 300.0
"""For one row; a template has a much shorter limit of its own."""
GROWN: Final = 1 << 30
"""Bytes of memory: a process that was killed after it grew so much was killed for that."""
_DIE_WITH_PARENT: Final = 1
_FINE: Final = "fine"


class Trial:
    """A process for rows under suspicion, started when the first one comes.

    Args:
        setup: what a worker is made of.
        reference: tokenize with the reference engine.
        row_seconds: how long a row may take.
    """

    def __init__(
        self, setup: WorkerSetup, *, reference: bool = False, row_seconds: float = ROW_SECONDS
    ) -> None:
        from ray import cloudpickle  # the other process needs no Ray, and starts sooner without

        self._start: bytes = cloudpickle.dumps((setup, reference))  # type: ignore[no-untyped-call]
        self._row_seconds = row_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  # closed at the exit
        self._memory = 0

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._end(self._process)
        self._errors.close()

    def blame(self, row: RawRow) -> Blame | None:
        """What the row does to a process, each time it is tried; None where it can be taken."""
        blame = None
        for _ in range(TRIES):
            blame = self._try(row)
            if blame is None:
                return None
        return blame

    def _try(self, row: RawRow) -> Blame | None:
        process = self._process or self._begin()
        assert process.stdin is not None
        try:
            pickle.dump(row, process.stdin)
            process.stdin.flush()
            answer = _answer(process, self._row_seconds)
        except BrokenPipeError:
            answer = ""
        except TimeoutError:
            self._end(process)
            reason = f"it did not end within {self._row_seconds:.0f} s"
            return Blame(ErrorCode.WORKER_CRASHED, reason)
        if answer == _FINE:
            return None
        if answer:
            memory = answer == MemoryError.__name__
            return Blame(ErrorCode.MEMORY_EXCEEDED if memory else ErrorCode.INTERNAL_ERROR, answer)
        return self._verdict(process)

    def _begin(self) -> subprocess.Popen[bytes]:
        """Start the process and wait until it is ready."""
        self._errors.seek(0)
        self._errors.truncate()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "promptmill.workers.trial"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._process = process
        assert process.stdin is not None
        process.stdin.write(self._start)
        process.stdin.flush()
        ready = _answer(process, LOAD_SECONDS)
        if not ready:
            self._end(process)
            raise OSError("the process to try rows in does not start")
        self._memory = int(ready)
        return process

    def _verdict(self, process: subprocess.Popen[bytes]) -> Blame:
        """What the end of the process says about the row."""
        code, peak = self._wait(process)
        reason = f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if self._said(b"memory allocation of") or (code < 0 and peak - self._memory > GROWN):
            return Blame(ErrorCode.MEMORY_EXCEEDED, reason)
        return Blame(ErrorCode.WORKER_CRASHED, reason)

    def _said(self, words: bytes) -> bool:
        self._errors.seek(0)
        return any(words in line for line in self._errors)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        self._wait(process)

    def _wait(self, process: subprocess.Popen[bytes]) -> tuple[int, int]:
        """Exit code and peak memory in bytes."""
        self._process = None
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        return process.returncode, usage.ru_maxrss << 10


def _answer(process: subprocess.Popen[bytes], seconds: float) -> str:
    """The next line; empty where the process has ended.

    Raises:
        TimeoutError: none came in time.
    """
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], seconds)
    if not ready:
        raise TimeoutError
    return process.stdout.readline().decode().strip()


def main() -> None:
    """The process: rows in, how they went out."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    leave_pandas_out()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints is no answer
    rows = sys.stdin.buffer
    setup, reference = pickle.load(rows)
    encoder = setup.encoder()
    if reference:
        encoder = encoder.on_reference()
    answers.write(f"{psutil.Process().memory_info().rss}\n")
    bound_memory(memory_room())
    while True:
        try:
            row = pickle.load(rows)
        except EOFError:
            return
        encoder.start_shard()
        try:
            encoder.encode([row])
        except EngineMismatch:
            answers.write(f"{_FINE}\n")  # the worker will see it, too, and knows what to do
        except BaseException as error:  # a panic in Rust is no Exception
            answers.write(f"{type(error).__name__}\n")
        else:
            answers.write(f"{_FINE}\n")


if __name__ == "__main__":
    main()

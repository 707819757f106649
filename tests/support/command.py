"""The command line, and other commands under test, as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

CLI: Final = (sys.executable, "-m", "promptmill.workers.cli")
LOOK_SECONDS: Final = 0.02


class Command:
    """A command in a session of its own, its log in a file.

    Args:
        words: the command.
        log: for both of its outputs.
        env: added to the environment.
    """

    def __init__(
        self, words: Sequence[str], log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.log = log
        with log.open("wb") as stream:
            self.process = subprocess.Popen(
                words,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def wait(self, seconds: float = 300) -> int:
        """The exit code; negative for a signal."""
        return self.process.wait(timeout=seconds)

    def until(self, condition: Callable[[], object], seconds: float = 300) -> None:
        """Wait for something that happens while the command runs."""
        end = time.monotonic() + seconds
        while not condition():
            assert not self.ended, f"ended too soon:\n{self.text}"
            assert time.monotonic() < end, f"waited {seconds} s in vain:\n{self.text}"
            time.sleep(LOOK_SECONDS)

"""Families that users bring in a file of their own (`--media-family`)."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Final

from promptmill.schemas.errors import JobError

MODULE: Final = "promptmill_own_family"
"""The name under which the file is a module."""


def family_source(given: str | None) -> str | None:
    """What `--media-family` means: a Python file to read, or its text.

    The result means the same again, so that a job resolves it once for workers elsewhere.

    Raises:
        JobError: the file cannot be read.
    """
    if given is None or "\n" in given:
        return given
    try:
        return Path(given).read_text(encoding="utf-8") + "\n"
    except (OSError, ValueError) as error:
        raise JobError(
            f"--media-family {given} cannot be read ({error}). Check the path."
        ) from error


def register_source(source: str) -> None:
    """Run the text of such a file, which registers what it has.

    Raises:
        JobError: it fails.
    """
    module = ModuleType(MODULE)
    sys.modules[MODULE] = module  # dataclasses look for the names of their module there
    try:
        exec(compile(source, MODULE, "exec"), module.__dict__)
    except Exception as error:
        raise JobError(
            f"The file of --media-family fails: {type(error).__name__}: {error}"
        ) from error

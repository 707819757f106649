"""Failures as a person sees them: a line that says what is wrong, and one that says what to do."""

from __future__ import annotations

import re
import sys
import traceback
from typing import Final

import typer

from promptmill.pipeline.storage.faults import StorageError
from promptmill.schemas.errors import JobError, RowError
from promptmill.schemas.redact import redacted
from promptmill.workers.cli.voice import VOICE
from promptmill.workers.logs import LogFormat, json_line

USAGE: Final = typer.BadParameter.__mro__[1]
"""What typer raises for wrong arguments; it has no name of its own in typer."""

_LAST_SENTENCE = re.compile(r"(?s)(.*[.!?)]) ([A-Z-].*)")
_SEE_HELP: Final = "Try '{} --help'."
_CHECK_PATH: Final = "Check the path, its permissions and the disk, then give the command again."
_REPORT: Final = (
    "Please report it with the line above. --verbose shows all of it, which may quote rows."
)


def show_failure(error: Exception) -> int:
    """Print a failure to stderr; the exit code."""
    if isinstance(error, USAGE):
        command = getattr(getattr(error, "ctx", None), "command_path", "promptmill")
        message = error.format_message()  # type: ignore[attr-defined]  # see USAGE
        _show(command, message.replace(": Value error, ", ": "), _SEE_HELP.format(command))
        return 2
    if isinstance(error, JobError | RowError | StorageError):
        _show("promptmill", *_parted(str(error)))
    elif isinstance(error, OSError) and error.strerror:
        place = f": {error.filename}" if error.filename is not None else ""
        _show("promptmill", f"{error.strerror}{place}", _CHECK_PATH)
    else:
        _show_fault(error)
    return 1


def _parted(message: str) -> tuple[str, str]:
    """What is wrong, and the way out, which messages name last."""
    if "\n" not in message and (found := _LAST_SENTENCE.fullmatch(message)):
        return found[1], found[2]
    return message, ""


def _show_fault(error: Exception) -> None:
    """A fault of ours: where it is and of which kind. What it says may quote a row."""
    if VOICE.verbose:
        traceback.print_exception(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{last.filename}:{last.lineno} in {last.name}"
    _show("promptmill", f"internal error: {type(error).__name__} at {place}", _REPORT)


def _show(who: str, *lines: str) -> None:
    text = redacted("\n".join(line for line in lines if line))
    sys.stdout.flush()
    as_json = VOICE.form is LogFormat.JSON
    typer.echo(json_line("error", text, event="failed") if as_json else f"{who}: {text}", err=True)

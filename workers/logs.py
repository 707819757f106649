"""Logging: text for people or one JSON object a line for machines; never a row, never a secret.

Both say which run, worker and shard they are about, where that is known. Where an exception is
shown, its own message is not: it may quote a row.
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from enum import StrEnum
from types import TracebackType
from typing import Final

from promptmill.schemas.redact import redacted

Value = str | int | float | None
LOGGER: Final = logging.getLogger("promptmill")
RUN_LENGTH: Final = 12
"""Characters of a fingerprint that name its run in logs and metrics."""
_ABOUT: ContextVar[Mapping[str, Value]] = ContextVar("about")


class LogFormat(StrEnum):
    """What a line of the log is."""

    TEXT = "text"
    JSON = "json"


@contextmanager
def about(**fields: Value) -> Iterator[None]:
    """What is logged inside is about this, in this thread."""
    before = _ABOUT.set({**_ABOUT.get({}), **fields})
    try:
        yield
    finally:
        _ABOUT.reset(before)


def json_line(level: str, message: str, **fields: Value) -> str:
    """A line of the log as JSON, with what it is about."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    record = {"time": now, "level": level, **_ABOUT.get({}), **fields}
    return json.dumps({**record, "message": redacted(message)}, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """`WARNING: what (run=1 worker=2)`; of an exception, where it came from and its kind."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s: %(message)s%(about)s")

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        fields = " ".join(f"{name}={value}" for name, value in _ABOUT.get({}).items())
        record.about = f" ({fields})" if fields else ""
        return redacted(super().format(record))

    def formatException(  # logging's name
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None]
        | tuple[None, None, None],
    ) -> str:
        """See `logging.Formatter`."""
        kind, _, trace = ei
        return "" if kind is None else f"{''.join(traceback.format_tb(trace))}{kind.__name__}"


class JsonFormatter(logging.Formatter):
    """An object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        fields: dict[str, Value] = {"logger": record.name}
        if record.exc_info and record.exc_info[0] is not None:
            kind, _, trace = record.exc_info
            fields["error"] = kind.__name__
            fields["stack"] = "".join(traceback.format_tb(trace))
        return json_line(record.levelname.lower(), record.getMessage(), **fields)


def formatter(form: LogFormat) -> logging.Formatter:
    """What makes such lines of log records."""
    return JsonFormatter() if form is LogFormat.JSON else TextFormatter()


def log_with(handler: logging.Handler) -> None:
    """Let the records of promptmill go to this handler alone."""
    LOGGER.handlers = [handler]
    LOGGER.propagate = False


def log_of_worker(form: LogFormat) -> None:
    """Log all warnings and errors of this process to its stderr, which Ray keeps in a file."""
    handler = logging.StreamHandler()
    handler.setFormatter(formatter(form))
    log_with(handler)

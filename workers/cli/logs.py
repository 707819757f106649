"""What of the library's logging a person sees: warnings and errors, and not too many of them.

`--verbose` shows all.
"""

from __future__ import annotations

import logging

from promptmill.workers.logs import LOGGER, LogFormat, formatter, log_with

MOST_RECORDS = 20


class _First(logging.Filter):
    """Lets the first records through and says when it stops."""

    def __init__(self) -> None:
        super().__init__()
        self._seen = 0

    def filter(self, record: logging.LogRecord) -> bool:
        self._seen += 1
        if self._seen == MOST_RECORDS:
            record.msg, record.args = "further messages of this kind are not shown", None
            record.exc_info = None
        return self._seen <= MOST_RECORDS


def show_few(form: LogFormat = LogFormat.TEXT) -> None:
    """Print the first warnings and errors of promptmill to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(formatter(form))
    handler.addFilter(_First())
    log_with(handler)


def show_all() -> None:
    """Print everything that promptmill logs to stderr, with what exceptions say."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s: %(name)s: %(message)s"))
    LOGGER.setLevel(logging.DEBUG)
    log_with(handler)

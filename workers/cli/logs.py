"""What of the library's logging a person sees: warnings and errors, and not too many of them.

Where an exception is shown, its own message is not: it may quote a row. `--verbose` shows all.
"""

from __future__ import annotations

import logging
import traceback
from types import TracebackType

MOST_RECORDS = 20

_LOGGER = logging.getLogger("promptmill")


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


class _Discreet(logging.Formatter):
    """Shows where an exception came from and of which kind it is."""

    def formatException(  # logging's name
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None]
        | tuple[None, None, None],
    ) -> str:
        kind, _, trace = ei
        return "" if kind is None else f"{''.join(traceback.format_tb(trace))}{kind.__name__}"


def show_few() -> None:
    """Print the first warnings and errors of promptmill to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Discreet("%(levelname)s: %(message)s"))
    handler.addFilter(_First())
    _show(handler)


def show_all() -> None:
    """Print everything that promptmill logs to stderr, with what exceptions say."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s: %(name)s: %(message)s"))
    _LOGGER.setLevel(logging.DEBUG)
    _show(handler)


def _show(handler: logging.Handler) -> None:
    _LOGGER.handlers = [handler]
    _LOGGER.propagate = False

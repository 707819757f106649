"""Keeps what the libraries say while a model is loaded off the user's log, and collects it."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_LIBRARIES = ("transformers", "huggingface_hub", "mistral_common")


class _Collector(logging.Handler):
    """Keeps messages instead of printing them."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message once, on one line."""
        text = " ".join(record.getMessage().split())
        if text not in self._messages:
            self._messages.append(text)


@contextmanager
def collected_notes() -> Iterator[list[str]]:
    """Within it, warnings that the libraries log go to the list it gives, and nowhere else.

    Python warnings (mostly deprecations of their own arguments) are dropped.
    """
    notes: list[str] = []
    collector = _Collector(notes)
    loggers = [logging.getLogger(name) for name in _LIBRARIES]
    before = [(logger.handlers, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.handlers, logger.propagate = [collector], False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield notes
    finally:
        for logger, (handlers, propagate) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate

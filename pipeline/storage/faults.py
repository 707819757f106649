"""What an object store may answer: which faults pass and are tried again, and what each tells."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final, TypeVar

from promptmill.schemas.redact import redacted

log = logging.getLogger(__name__)

PAUSES: Final = [0.5, 2.0, 8.0]
"""Seconds before the second, third and fourth attempt, more or less by chance. The client
libraries try again by themselves, too, faster."""

_PASSING: Final = {408, 409, 429}
"""Answers below 500 that may be another one soon: slow, in conflict with another writer, busy."""
_BROKEN: Final = ("Timeout", "Connection", "HTTPClient", "IncompleteRead", "Payload", "Disconnect")
"""Words in the class names of errors without an answer, whatever library they come from."""

Result = TypeVar("Result")


class Fault(StrEnum):
    """The classes of faults."""

    ACCESS = "access denied"
    BUSY = "busy"
    UNREACHABLE = "unreachable"
    REFUSED = "refused"


_WAY_OUT: Final = {
    Fault.ACCESS: "Check the credentials of this machine, and its rights to list, read, write and "
    "delete there.",
    Fault.BUSY: "It was tried {times} times. Start again later, with fewer workers if it lasts; "
    "what is committed stays.",
    Fault.UNREACHABLE: "It was tried {times} times. Check the network and the endpoint, then "
    "start again; what is committed stays.",
    Fault.REFUSED: "Check the address and the settings of the store.",
}


class StorageError(OSError):
    """An object store failed; names the operation, the place, the class and the way out."""


def with_retries(operation: str, url: str, call: Callable[[], Result]) -> Result:
    """Do something in a store, and again after a pause where the fault may pass.

    Args:
        operation: a word for messages: read, write, ...
        url: what it is done to.
        call: does it; may be called again after it failed.

    Raises:
        FileNotFoundError, FileExistsError: the store's answer, not a fault.
        StorageError: everything else.
    """
    for pause in [*PAUSES, None]:
        try:
            return call()
        except FileNotFoundError:
            raise
        except Exception as error:  # each library has classes of its own
            if _status(error) == 412 or isinstance(error, FileExistsError):
                raise FileExistsError(redacted(url)) from None
            fault = fault_of(error)
            if fault is None:
                raise
            if pause is None or fault in (Fault.ACCESS, Fault.REFUSED):
                # Not chained: what libraries raise may show credentials of a URL.
                raise StorageError(_message(operation, url, fault, error)) from None
            log.info("%s %s: %s, tried again", operation, redacted(url), fault)
            time.sleep(pause * random.uniform(0.5, 1.5))
    raise AssertionError("the last attempt returns or raises")


def fault_of(error: Exception) -> Fault | None:
    """The class of an error; None: it is no answer of a store, but a fault of this program."""
    status = _status(error)
    names = [kind.__name__ for kind in type(error).__mro__]
    if isinstance(error, PermissionError) or status in (401, 403):
        return Fault.ACCESS
    if any("Credential" in name or "TokenRetrieval" in name for name in names):
        return Fault.ACCESS
    if status is not None:
        return Fault.BUSY if status in _PASSING or status >= 500 else Fault.REFUSED
    if any(word in name for name in names for word in _BROKEN):
        return Fault.UNREACHABLE
    known = isinstance(error, OSError) or "BotoCoreError" in names
    return Fault.REFUSED if known else None


def _message(operation: str, url: str, fault: Fault, error: Exception) -> str:
    status = _status(error)
    answer = f" (HTTP {status})" if status is not None else ""
    said = " ".join(str(error).split()) or type(error).__name__
    way_out = _WAY_OUT[fault].format(times=len(PAUSES) + 1)
    text = f"{url}: {operation} failed, {fault}{answer}: {said.rstrip('.')}. {way_out}"
    return redacted(text)


def _status(error: BaseException) -> int | None:
    """The HTTP status that an error comes from, as the client libraries show it."""
    for link in _chain(error):
        response = getattr(link, "response", None)
        if isinstance(response, dict):
            found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        else:
            found = getattr(response, "status_code", None) or getattr(link, "status", None)
            found = found or getattr(link, "code", None)
        if isinstance(found, int):
            return found
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__

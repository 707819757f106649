"""Fetching media over HTTP: allowed hosts, public addresses, bounded size and time.

The host's addresses are resolved once and judged; the connection goes to the judged address, so
that a name cannot mean one thing when it is checked and another when it is used. Every redirect
starts over. Proxies from the environment are not used.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Final
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from promptmill.pipeline.media.addresses import Network, Resolver, is_reachable, resolve
from promptmill.schemas.errors import ErrorCode, RowError, Stage

MAX_REDIRECTS: Final = 5
MAX_ATTEMPTS: Final = 3
CONNECTIONS_PER_HOST: Final = 4
BACKOFF_SECONDS: Final = 0.5
MAX_BACKOFF_SECONDS: Final = 30.0
_CHUNK: Final = 1 << 16
_PORTS: Final = {"http": 80, "https": 443}
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_HEADERS: Final = {"User-Agent": "promptmill", "Accept-Encoding": "identity"}


class _Busy(Exception):
    """An answer after which another attempt may help."""

    def __init__(self, host: str, status: int, wait: float | None) -> None:
        super().__init__(host, status, wait)
        self.host, self.status, self.wait = host, status, wait


class HttpFetcher:
    """Fetches from the hosts a job allows. Safe to use from several threads.

    Args:
        domains: host names, lower case; ports do not count.
        networks: that are not public and may be reached all the same.
        resolver: host and port to addresses.
        sleep: waits between attempts.
    """

    def __init__(
        self,
        domains: frozenset[str],
        networks: Sequence[Network] = (),
        *,
        resolver: Resolver = resolve,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._domains = domains
        self._networks = networks
        self._resolver = resolver
        self._sleep = sleep
        self._slots: dict[str, threading.BoundedSemaphore] = {}

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    def fetch(self, url: str, *, max_bytes: int, timeout: float) -> bytes:
        """The body of `url`. Answers 429 and 5xx are asked again, with growing pauses.

        Args:
            url: http or https.
            max_bytes: a longer body is refused.
            timeout: seconds for one attempt, redirects included.

        Raises:
            RowError: MEDIA_NOT_ALLOWED, MEDIA_LIMIT or MEDIA_FETCH_FAILED.
        """
        for attempt in range(MAX_ATTEMPTS):
            try:
                return self._attempt(url, max_bytes, time.monotonic() + timeout)
            except _Busy as busy:
                answer = f"{busy.host} answered {busy.status}, {attempt + 1} times"
                if attempt + 1 < MAX_ATTEMPTS:
                    self._sleep(min(busy.wait or BACKOFF_SECONDS * 4**attempt, MAX_BACKOFF_SECONDS))
        raise _failed(answer)

    def _attempt(self, url: str, max_bytes: int, deadline: float) -> bytes:
        """One attempt, over its redirects."""
        for _ in range(MAX_REDIRECTS + 1):
            parts, host, port = self._allowed(url)
            slot = self._slots.setdefault(host, threading.BoundedSemaphore(CONNECTIONS_PER_HOST))
            with slot, self._response(parts, host, port, deadline) as response:
                if response.status not in _REDIRECTS:
                    return _body(response, host, max_bytes)
                url = urljoin(url, response.headers.get("Location", ""))
        raise _failed(f"{host} redirects more than {MAX_REDIRECTS} times")

    def _allowed(self, url: str) -> tuple[SplitResult, str, int]:
        """The parts of a URL that may be fetched, its host and port."""
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").lower(), parts.port
        except ValueError:
            raise _failed("The media URL is malformed") from None
        if parts.scheme not in _PORTS:
            raise _not_allowed("A media URL must be http, https, data or file")
        if host not in self._domains:
            listed = ", ".join(sorted(self._domains)) or "none"
            raise _not_allowed(
                f"The media URL must be from one of the allowed domains ({listed}), not {host!r}; "
                "see --allowed-media-domains"
            )
        return parts, host, port or _PORTS[parts.scheme]

    def _address(self, host: str, port: int) -> str:
        """An address of a host that may be connected to; all of its addresses must be."""
        try:
            addresses = list(self._resolver(host, port))
        except (OSError, UnicodeError):
            addresses = []
        if not addresses:
            raise _failed(f"{host} has no address")
        if not all(is_reachable(address, self._networks) for address in addresses):
            raise _not_allowed(
                f"{host} resolves to an address that is not public; open its network with "
                "--allowed-media-networks if that is meant"
            )
        return addresses[0]

    @contextmanager
    def _response(
        self, parts: SplitResult, host: str, port: int, deadline: float
    ) -> Iterator[http.client.HTTPResponse]:
        """The answer to a GET, its body unread."""
        address = self._address(host, port)
        try:
            with (
                socket.create_connection(
                    (address, port), max(0.001, deadline - time.monotonic())
                ) as raw,
                _shut_at(raw, deadline, host),
            ):
                connection: http.client.HTTPConnection
                if parts.scheme == "https":
                    connection = http.client.HTTPSConnection(host, port, context=self._tls)
                    connection.sock = self._tls.wrap_socket(raw, server_hostname=host)
                else:
                    connection = http.client.HTTPConnection(host, port)
                    connection.sock = raw
                try:
                    connection.request("GET", _target(parts), headers=_HEADERS)
                    yield connection.getresponse()
                finally:
                    connection.close()
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _failed(f"Fetching from {host} failed ({type(error).__name__})") from None


@contextmanager
def _shut_at(raw: socket.socket, deadline: float, host: str) -> Iterator[None]:
    """Shut a connection down at a time, whatever is being read from it then."""
    late = threading.Event()
    other = raw.dup()

    def shut() -> None:
        late.set()
        with suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(deadline - time.monotonic(), shut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        other.close()
        if late.is_set():
            raise _failed(f"{host} took too long")


def _target(parts: SplitResult) -> str:
    """The request target, with what may not stand in it quoted."""
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
    query = quote(parts.query, safe="/%:@!$&'()*+,;=~?[]")
    return f"{path}?{query}" if query else path


def _body(response: http.client.HTTPResponse, host: str, max_bytes: int) -> bytes:
    """The whole body of a good answer, in bounded memory."""
    status = response.status
    if status == 429 or status >= 500:
        wait = response.headers.get("Retry-After", "")
        raise _Busy(host, status, float(wait) if wait.isascii() and wait.isdigit() else None)
    if status != 200:
        raise _failed(f"{host} answered {status}")
    if (response.length or 0) > max_bytes:
        raise _too_large(host, max_bytes)
    chunks: list[bytes] = []
    size = 0
    while chunk := response.read1(_CHUNK):
        chunks.append(chunk)
        size += len(chunk)
        if size > max_bytes:
            raise _too_large(host, max_bytes)
    if response.length:
        raise _failed(f"{host} sent {response.length} bytes less than it announced")
    return b"".join(chunks)


def _too_large(host: str, max_bytes: int) -> RowError:
    return RowError(
        ErrorCode.MEDIA_LIMIT,
        f"A media file from {host} is over the limit of {max_bytes} bytes. Use a smaller file.",
        stage=Stage.EXPAND,
    )


def _not_allowed(message: str) -> RowError:
    return RowError(ErrorCode.MEDIA_NOT_ALLOWED, message + ".", stage=Stage.EXPAND)


def _failed(message: str) -> RowError:
    return RowError(ErrorCode.MEDIA_FETCH_FAILED, message + ".", stage=Stage.EXPAND)

"""Fetching from a server that misbehaves, on this machine."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from promptmill.pipeline.media.addresses import Network, is_reachable
from promptmill.pipeline.media.http_fetch import MAX_ATTEMPTS, MAX_REDIRECTS, HttpFetcher
from promptmill.schemas.errors import ErrorCode, RowError

HOST = "media.test"
LOOPBACK = [ipaddress.ip_network("127.0.0.0/8")]
BODY = b"x" * 100_000
LIMIT = 1_000_000


class Misbehaving(BaseHTTPRequestHandler):
    """Every path is a way to go wrong."""

    protocol_version = "HTTP/1.1"
    seen: ClassVar[Counter[str]] = Counter()
    stop = threading.Event()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.seen[path] += 1
        self.close_connection = True
        getattr(self, "answer_" + path.strip("/").replace("-", "_"))()

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        headers.setdefault("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def answer_good(self) -> None:
        self.answer(200, BODY)

    def answer_missing(self) -> None:
        self.answer(404)

    def answer_busy(self) -> None:
        self.answer(429, Retry_After="7")

    def answer_broken(self) -> None:
        self.answer(500)

    def answer_recovers(self) -> None:
        self.answer(503) if self.seen["/recovers"] == 1 else self.answer(200, BODY)

    def answer_short(self) -> None:
        self.answer(200, BODY, Content_Length=str(len(BODY) + 1))

    def answer_huge(self) -> None:
        self.answer(200, Content_Length=str(LIMIT + 1))

    def answer_endless(self) -> None:
        self.answer(200, Transfer_Encoding="chunked")
        with self.until_hung_up():
            while not self.stop.is_set():
                self.wfile.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")

    def answer_slow(self) -> None:
        self.answer(200, Content_Length=str(len(BODY)))
        with self.until_hung_up():
            while not self.stop.wait(0.01):
                self.wfile.write(b"x")

    def answer_silent(self) -> None:
        with self.until_hung_up():
            while not self.stop.wait(0.01):
                self.wfile.write(b"X")

    def answer_loop(self) -> None:
        self.answer(302, Location="/loop")

    def answer_moved(self) -> None:
        self.answer(301, Location="/good?moved=1")

    def answer_away(self) -> None:
        self.answer(302, Location=f"http://127.0.0.1:{self.server.server_port}/good")

    def answer_file(self) -> None:
        self.answer(302, Location="file:///etc/passwd")

    def answer_rebound(self) -> None:
        self.answer(302, Location=f"http://{HOST}:{self.server.server_port}/good")

    def log_message(self, format: str, *args: object) -> None:
        """Not to the test's output."""

    @staticmethod
    def until_hung_up() -> suppress:
        return suppress(OSError)


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    Misbehaving.seen.clear()
    Misbehaving.stop.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Misbehaving) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        Misbehaving.stop.set()
        server.shutdown()
        thread.join()


def fetcher(
    *answers: list[str],
    networks: Sequence[Network] = LOOPBACK,
    domains: Iterable[str] = (HOST,),
    pauses: list[float] | None = None,
) -> HttpFetcher:
    """One whose resolver gives these answers in turn, the last for ever."""
    waiting = list(answers) or [["127.0.0.1"]]

    def resolver(host: str, port: int) -> list[str]:
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    sleep = (pauses if pauses is not None else []).append
    return HttpFetcher(frozenset(domains), networks, resolver=resolver, sleep=sleep)


def fetch(server: ThreadingHTTPServer, path: str, by: HttpFetcher, timeout: float = 20.0) -> bytes:
    url = f"http://{HOST}:{server.server_port}/{path}"
    return by.fetch(url, max_bytes=LIMIT, timeout=timeout)


def refused(
    server: ThreadingHTTPServer, path: str, by: HttpFetcher, timeout: float = 20.0
) -> RowError:
    with pytest.raises(RowError) as caught:
        fetch(server, path, by, timeout)
    return caught.value


def test_a_body(server: ThreadingHTTPServer) -> None:
    assert fetch(server, "good?a=b c&d=é", fetcher()) == BODY
    assert fetch(server, "moved", fetcher()) == BODY


@pytest.mark.parametrize("path", ["busy", "broken"])
def test_busy_answers_are_asked_again(server: ThreadingHTTPServer, path: str) -> None:
    pauses: list[float] = []
    error = refused(server, path, fetcher(pauses=pauses))
    assert error.code is ErrorCode.MEDIA_FETCH_FAILED
    assert Misbehaving.seen["/" + path] == MAX_ATTEMPTS
    assert pauses == ([7.0, 7.0] if path == "busy" else [0.5, 2.0])


def test_a_server_that_recovers(server: ThreadingHTTPServer) -> None:
    assert fetch(server, "recovers", fetcher()) == BODY


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("missing", ErrorCode.MEDIA_FETCH_FAILED),
        ("short", ErrorCode.MEDIA_FETCH_FAILED),
        ("loop", ErrorCode.MEDIA_FETCH_FAILED),
        ("huge", ErrorCode.MEDIA_LIMIT),
        ("endless", ErrorCode.MEDIA_LIMIT),
        ("away", ErrorCode.MEDIA_NOT_ALLOWED),
        ("file", ErrorCode.MEDIA_NOT_ALLOWED),
    ],
)
def test_refused_at_once(server: ThreadingHTTPServer, path: str, code: ErrorCode) -> None:
    pauses: list[float] = []
    error = refused(server, path, fetcher(pauses=pauses))
    assert error.code is code
    assert not pauses
    assert Misbehaving.seen["/" + path] == (MAX_REDIRECTS + 1 if path == "loop" else 1)


@pytest.mark.parametrize("path", ["slow", "silent"])
def test_a_deadline_holds_whatever_trickles_in(server: ThreadingHTTPServer, path: str) -> None:
    error = refused(server, path, fetcher(), timeout=0.3)
    assert error.code is ErrorCode.MEDIA_FETCH_FAILED
    assert "too long" in error.message


def test_only_the_domains_of_the_job(server: ThreadingHTTPServer) -> None:
    error = refused(server, "good", fetcher(domains=("other.test",)))
    assert error.code is ErrorCode.MEDIA_NOT_ALLOWED
    assert "other.test" in error.message
    assert not Misbehaving.seen


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.1"], ["::1"], ["169.254.169.254"], ["10.0.0.1"], ["93.184.216.34", "127.0.0.1"]],
)
def test_only_public_addresses(server: ThreadingHTTPServer, addresses: list[str]) -> None:
    error = refused(server, "good", fetcher(addresses, networks=()))
    assert error.code is ErrorCode.MEDIA_NOT_ALLOWED
    assert not Misbehaving.seen


def test_every_hop_is_resolved_and_judged_once(server: ThreadingHTTPServer) -> None:
    """A name that turns to another address after it was judged leads nowhere new."""
    assert fetch(server, "good", fetcher(["127.0.0.1"], ["10.0.0.1"])) == BODY
    error = refused(server, "rebound", fetcher(["127.0.0.1"], ["10.0.0.1"]))
    assert error.code is ErrorCode.MEDIA_NOT_ALLOWED
    assert Misbehaving.seen["/good"] == 1


@pytest.mark.parametrize(
    "url",
    ["ftp://media.test/a", "http://", "http://media.test:99999/", "http://[::1/", "httpfoo://x/y"],
)
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(RowError) as caught:
        fetcher().fetch(url, max_bytes=LIMIT, timeout=1.0)
    assert caught.value.code in {ErrorCode.MEDIA_NOT_ALLOWED, ErrorCode.MEDIA_FETCH_FAILED}


def test_nobody_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://{HOST}:{unused.getsockname()[1]}/"
        with pytest.raises(RowError) as caught:
            fetcher().fetch(url, max_bytes=LIMIT, timeout=5.0)
    assert caught.value.code is ErrorCode.MEDIA_FETCH_FAILED


@pytest.mark.parametrize(
    ("address", "reachable"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
        ("0.0.0.0", False),
        ("100.64.0.1", False),
        ("192.168.1.1", False),
        ("224.0.0.1", False),
        ("fe80::1%eth0", False),
        ("fc00::1", False),
        ("::ffff:127.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
    ],
)
def test_public_addresses(address: str, reachable: bool) -> None:
    assert is_reachable(address, ()) is reachable

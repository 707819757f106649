"""An S3 server in a process of its own, and in front of it a proxy that makes trouble when told."""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

Kind = Literal["status", "slow", "cut", "lost", "unconditional"]
AUTHORIZED = {"Authorization": "AWS4-HMAC-SHA256 Credential=somebody/20260101/us-east-1/s3/x"}
"""The server asks who it is, and believes it."""
HOP_BY_HOP = {"connection", "transfer-encoding", "keep-alive"}


@dataclass
class Trouble:
    """What happens to the next requests that match."""

    method: str
    path: str
    """A regular expression that is found in path and query."""
    kind: Kind
    """Answered by a status; later; cut off in the answer's middle; done, and the answer lost; done
    without its condition."""
    value: float = 0
    """The status, or the seconds."""
    times: int = 1_000_000
    every: int = 1
    """It takes so many requests that match until it happens to one."""
    seen: int = 0
    met: int = 0
    """Requests that it happened to."""

    def takes(self, method: str, path: str) -> bool:
        if self.met >= self.times or method != self.method or not re.search(self.path, path):
            return False
        self.seen += 1
        if self.seen % self.every:
            return False
        self.met += 1
        return True


@dataclass(frozen=True)
class Bucket:
    """A bucket of its own."""

    server: S3Server
    name: str

    def put(self, key: str, content: bytes) -> None:
        self.server.direct("PUT", f"/{self.name}/{key}", content)

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        """Keys and contents."""
        listing = self.server.direct("GET", f"/{self.name}?list-type=2&prefix={prefix}").decode()
        keys = re.findall(r"<Key>(.*?)</Key>", listing)
        return {key: self.server.direct("GET", f"/{self.name}/{key}") for key in keys}

    def uploads(self) -> list[str]:
        """The keys of multipart uploads that are under way."""
        listing = self.server.direct("GET", f"/{self.name}?uploads").decode()
        return re.findall(r"<Key>(.*?)</Key>", listing)


@dataclass
class S3Server:
    """The server and its proxy."""

    backend: int
    """The server's own port."""
    troubles: list[Trouble] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Method and path of all that came."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Looking whether an object is there and writing it are one step in S3, but not in moto."""
    url: str = ""

    def trouble(
        self,
        method: str,
        path: str,
        kind: Kind,
        value: float = 0,
        times: int = 1_000_000,
        every: int = 1,
    ) -> Trouble:
        made = Trouble(method, path, kind, value, times, every)
        self.troubles.append(made)
        return made

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        """Pass a request on and its answer back, or do what a trouble says."""
        method, path = request.command, request.path
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        with self.lock:
            self.requests.append((method, path))
            trouble = next((one for one in self.troubles if one.takes(method, path)), None)
        kind = trouble.kind if trouble else None
        if trouble and kind == "slow":
            time.sleep(trouble.value)
        if kind == "unconditional":
            del request.headers["If-None-Match"]
        if trouble and kind == "status":
            status, headers, answer = int(trouble.value), [], b""
        else:
            with self.lock:
                status, headers, answer = self.ask(method, path, dict(request.headers), body)
        if kind == "lost":
            request.connection.shutdown(socket.SHUT_RDWR)
            request.close_connection = True
            return
        request.send_response_only(status)
        for name, value in headers:
            if name.lower() not in HOP_BY_HOP:
                request.send_header(name, value)
        if "content-length" not in {name.lower() for name, _ in headers}:
            request.send_header("Content-Length", str(len(answer)))
        request.end_headers()
        if kind == "cut":
            request.wfile.write(answer[: len(answer) // 2])
            request.wfile.flush()
            request.connection.shutdown(socket.SHUT_RDWR)
            request.close_connection = True
        elif method != "HEAD":
            request.wfile.write(answer)

    def ask(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """What the server itself answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.backend)
        sent = {name: value for name, value in headers.items() if name.lower() != "expect"}
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, answer.getheaders(), content

    def direct(self, method: str, path: str, body: bytes = b"") -> bytes:
        """The same past the proxy, for the tests' own looks and changes."""
        status, _, content = self.ask(method, path, AUTHORIZED, body)
        assert status in (200, 204), (method, path, status, content)
        return content

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to use the server."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": "S3cr3t",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_MAX_ATTEMPTS": "2",  # the client's own, with pauses that tests cannot shorten
        }


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    server: S3Server

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that hang up are part of the game."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __getattr__(self, name: str) -> object:
        if name.startswith("do_"):
            assert isinstance(self.server, _Proxy)
            return lambda: self.server.server.handle(self)  # type: ignore[attr-defined]
        raise AttributeError(name)

    def log_message(self, format: str, *args: object) -> None:
        """The tests' output is theirs."""


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Both, as long as the context lasts."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        running = re.compile(r"Running on http://127\.0\.0\.1:(\d+)")
        port = next((int(m[1]) for line in process.stderr if (m := running.search(line))), None)
        assert port is not None, "moto's server does not start: is it installed?"
        reader = threading.Thread(target=process.stderr.read)
        reader.start()
        server = S3Server(backend=port)
        with _Proxy(("127.0.0.1", 0), _Handler) as proxy:
            proxy.server = server
            server.url = f"http://127.0.0.1:{proxy.server_port}"
            threading.Thread(target=proxy.serve_forever).start()
            yield server
            proxy.shutdown()
        process.terminate()
        reader.join()

"""A Hub with one data set, as far as reading its files through `hf://` asks for one."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
DATASET = "org/name"


class Hub(ThreadingHTTPServer):
    """Serves `files` (by path) at `address`; `troubles` are answers that come first."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.troubles: list[int] = []
        """Status codes of the next downloads."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def entry(self, path: str) -> dict[str, object] | None:
        """A file or a folder, as the Hub describes it."""
        if path in self.files:
            data = self.files[path]
            oid = hashlib.sha1(data).hexdigest()
            return {"type": "file", "path": path, "size": len(data), "oid": oid}
        if any(name.startswith(f"{path}/") for name in self.files):
            return {"type": "directory", "path": path, "size": 0, "oid": COMMIT}
        return None

    def below(self, folder: str, *, recursive: bool) -> list[dict[str, object]]:
        """What a folder holds."""
        found = set()
        for name in self.files:
            for path in (name, *map(str, PurePosixPath(name).parents)):
                parent = str(PurePosixPath(path).parent)
                inside = parent == (folder or ".") or (recursive and _is_below(path, folder))
                if path != "." and inside:
                    found.add(path)
        return [entry for path in sorted(found) if (entry := self.entry(path))]


def _is_below(path: str, folder: str) -> bool:
    return not folder or path.startswith(f"{folder}/")


@contextmanager
def hub() -> Iterator[Hub]:
    with Hub() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        path, api = unquote(url.path), f"/api/datasets/{DATASET}"
        if path in (api, f"{api}/revision/main", f"{api}/revision/{COMMIT}"):
            self._send(json.dumps({"id": DATASET, "sha": COMMIT, "siblings": []}).encode())
        elif path.startswith(f"{api}/tree/"):
            folder = path.removeprefix(f"{api}/tree/").partition("/")[2]
            recursive = "recursive=true" in url.query.lower()
            self._send(json.dumps(self.server.below(folder, recursive=recursive)).encode())
        elif path.startswith(f"/datasets/{DATASET}/resolve/"):
            self._download(path.removeprefix(f"/datasets/{DATASET}/resolve/").partition("/")[2])
        else:
            self._send(b"", 404, {"X-Error-Code": "RepoNotFound"})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.path.startswith(f"/api/datasets/{DATASET}/paths-info/"):
            return self._send(b"", 404)
        found = [self.server.entry(path) for path in json.loads(body)["paths"]]
        return self._send(json.dumps([one for one in found if one]).encode())

    def _download(self, path: str) -> None:
        if self.command == "GET" and self.server.troubles:
            return self._send(b"", self.server.troubles.pop(0))
        if path not in self.server.files:
            return self._send(b"", 404, {"X-Error-Code": "EntryNotFound"})
        data, status = self.server.files[path], 200
        headers = {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X-Repo-Commit": COMMIT}
        if (asked := self.headers.get("Range")) is not None:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            headers["Content-Range"] = f"bytes {first}-{last or len(data) - 1}/{len(data)}"
            data, status = data[int(first) : int(last or len(data)) + 1], 206
        return self._send(data, status, headers)

    def _send(self, data: bytes, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

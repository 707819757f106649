"""Made-up model folders, and a local server that speaks the hub's protocol."""

import hashlib
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from promptmill.pipeline.model.load import load_bundle
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.options import JobOptions

Load = Callable[..., ModelBundle]
MakeFolder = Callable[..., Path]


@pytest.fixture(scope="session")
def load() -> Load:
    """load_bundle for a folder and job options; a folder is loaded once for the same options."""
    loaded: dict[str, ModelBundle] = {}

    def load_once(folder: Path | str, **options: object) -> ModelBundle:
        job = JobOptions.model_validate(
            {"input": ("rows.jsonl",), "output": "out", "model": str(folder), **options}
        )
        key = job.model_dump_json()
        if key not in loaded:
            loaded[key] = load_bundle(job)
        return loaded[key]

    return load_once


@pytest.fixture
def make_folder(tiny_models: Path, tmp_path: Path) -> MakeFolder:
    """A copy of a tiny model folder with some files replaced (JSON or text) or removed (None)."""

    def make(files: dict[str, object] | None = None, base: str = "chatml") -> Path:
        folder = tmp_path / f"model{len(list(tmp_path.glob('model*')))}"
        shutil.copytree(tiny_models / base, folder, copy_function=shutil.copyfile)
        folder.chmod(0o755)
        for name, content in (files or {}).items():
            path = folder / name
            if content is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            text = content if isinstance(content, str) else json.dumps(content)
            path.write_text(text, encoding="utf-8")
        return folder

    return make


@dataclass
class HubServer:
    """A hub with some repositories; `requests` says what it was asked for."""

    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refused: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Repository -> HTTP status and the hub's error code."""
    token: str | None = None
    """Asked for where it is set; without it no repository is seen."""
    requests: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def downloads(self) -> set[str]:
        return {r.split("/resolve/", 1)[1].split("/", 1)[1] for r in self.requests if " " not in r}

    def commit(self, repository: str) -> str:
        """A commit id that follows from the content."""
        names = sorted(self.repositories[repository].items())
        return hashlib.sha1(repr(names).encode()).hexdigest()


@pytest.fixture
def hub_server() -> Iterator[HubServer]:
    """A running hub; empty at first."""
    state = HubServer()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(state))
    state.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


def _handler(state: HubServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, body: bool) -> None:
            path = self.path.split("?")[0].strip("/")
            is_api = path.startswith("api/models/")
            parts = path.removeprefix("api/models/").split("/")
            repository, rest = "/".join(parts[:2]), parts[2:]
            files = state.repositories.get(repository)
            if state.token and self.headers["Authorization"] != f"Bearer {state.token}":
                self._send(401, b"", "RepoNotFound", body)
            elif repository in state.refused:
                self._send(state.refused[repository][0], b"", state.refused[repository][1], body)
            elif files is None:
                self._send(404, b"", "RepoNotFound", body)
            elif is_api and rest[0] == "revision":
                self._revision(repository, rest[1], body)
            elif is_api:
                tree = [
                    {"type": "file", "path": name, "size": len(data), "oid": _sha1(data)}
                    for name, data in files.items()
                ]
                self._send(200, json.dumps(tree).encode(), "", body)
            else:
                name = "/".join(rest[2:])
                if body:
                    state.requests.append(f"{repository}/resolve/{rest[1]}/{name}")
                self._send(200, files[name], "", body, state.commit(repository))

        def _revision(self, repository: str, revision: str, body: bool) -> None:
            state.requests.append(f"GET {repository} {revision}")
            if revision not in ("main", "v1", state.commit(repository)):
                self._send(404, b"", "RevisionNotFound", body)
                return
            info = {"id": repository, "sha": state.commit(repository), "siblings": []}
            self._send(200, json.dumps(info).encode(), "", body)

        def _send(self, status: int, data: bytes, code: str, body: bool, commit: str = "") -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Content-Type", "application/json")
            self.send_header("ETag", f'"{_sha1(data)}"')
            if code:
                self.send_header("X-Error-Code", code)
            if commit:
                self.send_header("X-Repo-Commit", commit)
            self.end_headers()
            if body:
                self.wfile.write(data)

    return Handler


def _sha1(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()

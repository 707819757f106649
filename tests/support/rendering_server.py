"""A server that answers as vLLM does, by our own encoder, or wrongly, late or not at all."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.model.bundle_cache import load_bundle_cached
from promptmill.schemas.options import JobOptions
from promptmill.schemas.request import RawRow, TokenRow

DEMO = Path(__file__).resolve().parents[2] / "static" / "demo"
CLOCK = datetime(2026, 1, 15, 12, tzinfo=UTC)
NAME = "demo"
CHAT, COMPLETION, TOKENIZE = "/v1/chat/completions/render", "/v1/completions/render", "/tokenize"

Body = dict[str, Any]


ROWS: list[Body] = [
    {"id": "short", "messages": [{"role": "user", "content": "hello there"}]},
    {"id": "cut", "messages": [{"role": "user", "content": "one two three " * 40}]}
    | {"truncate_prompt_tokens": 20},
    {"id": "cut-right", "prompt": "one two three " * 40, "truncate_prompt_tokens": 9}
    | {"truncation_side": "right"},
    {"id": "two", "prompt": ["one two", "three"]},
    {"id": "ids", "prompt": [10, 11, 12]},
    {
        "id": "tools",
        "messages": [{"role": "user", "content": "weather?"}],
        "tools": [{"type": "function", "function": {"name": "look_up"}}],
    },
    {
        "id": "image",
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": "images/square.png"}},
                    {"type": "text", "text": "what is it?"},
                ],
            }
        ],
    },
    {"id": "long", "messages": [{"role": "user", "content": "one two three " * 200}]},
    {"id": "empty", "messages": []},
    {"id": "broken"},
]
"""Rows that the demo model can be asked for, and four that become rejects."""


class Stub:
    """What a server of the demo model is like; tests change it while it runs.

    Args:
        options: of a job that makes what the server makes.
    """

    def __init__(self, **options: Any) -> None:
        self.paths = {CHAT, COMPLETION, TOKENIZE, "/v1/models", "/version"}
        self.tokenizes_chats = True
        self.key: str | None = None
        self.failures: list[int] = []
        """Statuses that the next questions for prompts get instead of an answer."""
        self.delay = 0.0
        self.change: Callable[[Body, Body], None] = lambda body, answer: None
        """Makes an answer wrong."""
        self.read: Callable[[Body], Body] = lambda body: body
        """What of a question it takes notice of."""
        self.asked: list[tuple[str, Body]] = []
        self.headers: list[dict[str, str]] = []
        self.statuses: Counter[int] = Counter()
        self.lock = threading.Lock()
        self.options = JobOptions.model_validate(
            {"input": ["-"], "output": "-", "model": str(DEMO / "model"), "max_model_len": 128}
            | {"trust_request_mm_kwargs": True, "engine": "tokenizers", **options}
        )
        bundle = load_bundle_cached(self.options)
        self.encoder = Encoder(bundle, self.options, self.options.clock or CLOCK)
        wide = self.options.model_copy(update={"max_model_len": 2048})
        self.tokenizing = Encoder(bundle, wide, self.options.clock or CLOCK)

    def answer(self, path: str, body: Body) -> tuple[int, object]:
        if path not in self.paths:
            return 404, {"detail": "Not Found"}
        if path == TOKENIZE and "messages" in body and not self.tokenizes_chats:
            return 422, {"detail": [{"loc": ["body", "prompt"], "msg": "Field required"}]}
        if body.get("model") not in (None, NAME):
            return 404, _error(f"The model `{body['model']}` does not exist.", "NotFoundError")
        if self.failures and (status := self.failures.pop(0)):
            return status, {"error": {"message": "stub fails as told"}}
        if body.get("tools") and body.get("tool_choice") != "none" and path == CHAT:
            return 400, _error('"auto" tool choice requires --enable-auto-tool-choice and ...')
        encoder = self.tokenizing if path == TOKENIZE else self.encoder
        row = {name: value for name, value in self.read(body).items() if name != "model"}
        batch = encoder.encode([RawRow("stub", 0, json.dumps(row).encode())])
        encoder.start_shard()
        if batch.rejects:
            return 400, _error(batch.rejects[0].error.message)
        answers = [_answer(path, body, row) for row in batch.rows]
        try:
            for one in answers:
                self.change(body, one)
        except AssertionError:
            return 500, _error("", "InternalServerError")
        return 200, answers if path == COMPLETION else answers[0]


def _answer(path: str, body: Body, row: TokenRow) -> Body:
    ids = row.ids.tolist()
    if path == TOKENIZE:
        return {"count": len(ids), "max_model_len": 2048, "tokens": ids, "token_strs": None}
    wanted = body.get("return_token_offsets") and not row.spans and row.offsets is not None
    places: dict[str, list[Body]] = {}
    for span in row.spans:
        place = {"offset": span.offset, "length": span.length}
        places.setdefault(span.modality, []).append(place)
    return {
        "request_id": "stub",
        "token_ids": ids,
        "token_offsets": row.offsets.tolist() if wanted and row.offsets is not None else None,
        "features": {"mm_placeholders": places} if places else None,
        "sampling_params": {},
    }


def _error(message: str, kind: str = "BadRequestError") -> Body:
    return {"error": {"message": message, "type": kind, "param": None, "code": 400}}


class _Handler(BaseHTTPRequestHandler):
    stub: Stub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        models = [{"id": NAME, "max_model_len": self.stub.encoder.max_model_len}]
        known = {"/v1/models": {"data": models}, "/version": {"version": "0.33.0"}}
        found = self.path in known and self.path in self.stub.paths
        self._send(200 if found else 404, known[self.path] if found else {"detail": "Not Found"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.stub.asked.append((self.path, body))
        time.sleep(self.stub.delay)
        with self.stub.lock:
            answer = self.stub.answer(self.path, body)
        self._send(*answer)

    def _send(self, status: int, body: object) -> None:
        self.stub.headers.append(dict(self.headers))
        if self.stub.key and self.headers.get("authorization") != f"Bearer {self.stub.key}":
            status, body = 401, {"error": "Unauthorized"}
        self.stub.statuses[status] += 1
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(stub: Stub) -> Iterator[str]:
    """The address of a server that is like that, while it runs."""
    handler = type("Handler", (_Handler,), {"stub": stub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()

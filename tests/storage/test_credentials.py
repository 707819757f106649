"""Credentials of URLs reach the store they are for, and nothing that people or records see."""

from __future__ import annotations

import json
import subprocess
import threading
from base64 import b64encode
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from command import CLI
from promptmill.pipeline.read.inputs import find_inputs
from promptmill.pipeline.storage.place import place_of
from promptmill.schemas.errors import JobError

USER = "me:S3cr3t"
WANTED = "Basic " + b64encode(USER.encode()).decode()


class Guarded(SimpleHTTPRequestHandler):
    """Serves its folder to those who know the password."""

    def send_head(self):  # type: ignore[no-untyped-def]  # as its base class
        if self.headers.get("Authorization") != WANTED:
            self.send_error(401)
            return None
        return super().send_head()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "served"
    folder.mkdir()
    row = {"messages": [{"role": "user", "content": "hello"}]}
    (folder / "rows.jsonl").write_text(json.dumps(row) + "\n" + "no row\n")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Guarded, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_run_keeps_them_to_itself(address: str, tmp_path: Path, tiny_models: Path) -> None:
    out = tmp_path / "out"
    command = [*CLI]
    options = ["--model", str(tiny_models / "chatml"), "--local"]

    def promptmill(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *arguments], capture_output=True, text=True)

    source = f"http://{USER}@{address}/rows.jsonl"
    done = promptmill("run", "-i", source, "-o", str(out), *options)
    assert done.returncode == 0, done.stderr
    again = promptmill("run", "-i", source, "-o", str(out), *options)
    assert "finished already" in again.stdout + again.stderr
    plan = promptmill("plan", "-i", source, "-o", str(out), *options)
    wrong = promptmill("run", "-i", source + "x", "-o", str(tmp_path / "no"), *options)
    assert wrong.returncode == 1
    said = "".join(one.stdout + one.stderr for one in (done, again, plan, wrong))
    assert f"http://***@{address}/rows.jsonl" in said
    files = [path for path in out.rglob("*") if path.is_file()]
    assert len(files) >= 3
    assert not [path for path in files if b"S3cr3t" in path.read_bytes()]
    assert "S3cr3t" not in said


@pytest.mark.parametrize("url", ["s3://key:S3/cr3t@bucket/out", "gs://S3cr3t@bucket/out"])
def test_stores_do_not_take_them_in_urls(url: str) -> None:
    for take in (place_of, lambda name: find_inputs([name])):
        with pytest.raises(JobError, match="leave them out") as refused:
            take(url)
        assert "cr3t" not in str(refused.value)

"""Every command of the documentation is run, in the order of its page, in a folder made for it.

Blocks marked `sh` and `python` are run; a block that needs something of others (a GPU, a cluster
of yours) says so in a comment before it, `<!-- not run: why -->`, and holds none of our commands.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rendering_server import Stub, serving

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / "README.md", ROOT / "SECURITY.md"),
    *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.stem != "options"),
]
"""All but the help texts, whose examples are checked where the command line is."""
BLOCK = re.compile(
    r"(?:<!-- not run: (?P<why>[^>]+) -->\n)?^```(?P<kind>\w*)[^\n]*\n(?P<code>.*?)^```",
    re.DOTALL | re.MULTILINE,
)
OURS = re.compile(r"^\s*(?:\S*/)?(?:promptmill|make) ", re.MULTILINE)
DEMO = ROOT / "static" / "demo"
STANDS_FOR = {
    "Qwen/Qwen3-8B": "model",
    "Qwen/Qwen2.5-VL-7B-Instruct": "model",
    ".venv/bin/promptmill": "promptmill",
    "infra/bench/queue_scale.py": str(ROOT / "infra" / "bench" / "queue_scale.py"),
}
"""What a page names, and what is here in its place: no hub is reached from tests."""
CLUSTER = "http://HEAD:8265"
"""Stands for a Ray head of our own."""
SERVER = "http://localhost:8000"
"""Stands for a server of our own."""
BUCKET = "s3://my-bucket/"
"""Stands for a bucket on a server of our own."""
MAKE = re.compile(r"^make .*$", re.MULTILINE)
"""The targets of the Makefile are what runs these tests."""


@dataclass(frozen=True)
class Block:
    kind: str
    code: str
    why: str | None


def blocks(page: Path) -> list[Block]:
    found = BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [Block(m["kind"], m["code"], m["why"]) for m in found]


def runs(block: Block) -> bool:
    return block.kind in ("sh", "python") and block.why is None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the pages start from: chats, documents, a model, images."""
    shutil.copytree(DEMO / "model", tmp_path / "model")
    shutil.copytree(DEMO / "images", tmp_path / "images")
    lines = (DEMO / "requests.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "chats.jsonl").write_bytes(b"".join(lines[:100]))
    documents = "".join(f'{{"text": "The {n}th document."}}\n' for n in range(50))
    (tmp_path / "documents.jsonl").write_text(documents, encoding="utf-8")
    turns = [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "So."}]
    (tmp_path / "sharegpt.jsonl").write_text(json.dumps({"conversations": turns}) + "\n")
    answers = pa.table({"custom_id": ["a", "b"], "token_ids": [[100, 200], [300]]})
    pq.write_table(answers, tmp_path / "answers.parquet")
    part = {"type": "image_url", "image_url": {"url": (tmp_path / "images/tall.png").as_uri()}}
    picture = json.dumps({"messages": [{"role": "user", "content": [part]}]})
    (tmp_path / "pictures.jsonl").write_text(picture + "\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def server() -> Iterator[str]:
    with serving(Stub(max_model_len=None)) as address:
        yield address


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, id=p.stem) for p in PAGES if any(map(runs, blocks(p)))],
)
def test_the_commands_of_a_page_run(
    page: Path, folder: Path, request: pytest.FixtureRequest
) -> None:
    if "deepseek-v4.1" in page.read_text(encoding="utf-8"):
        models = request.getfixturevalue("models")
        shutil.copytree(models / "deepseek_recipe_v41", folder / "deepseek-v4.1")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    stands_for = dict(STANDS_FOR)
    if any(CLUSTER in block.code for block in blocks(page)):
        head = request.getfixturevalue("ray_head")
        stands_for[CLUSTER], environment = head.dashboard, head.environment
    if any(SERVER in block.code for block in filter(runs, blocks(page))):
        stands_for[SERVER] = request.getfixturevalue("server")
    if any(BUCKET in block.code for block in filter(runs, blocks(page))):
        bucket = request.getfixturevalue("bucket")
        stands_for[BUCKET] = f"s3://{bucket.name}/"
        bucket.put("chats.jsonl", (folder / "chats.jsonl").read_bytes())
        environment |= bucket.server.environment
    for block in filter(runs, blocks(page)):
        code = MAKE.sub("", block.code)
        for name, here in stands_for.items():
            code = code.replace(name, here)
        command = {"sh": ["bash", "-euo", "pipefail", "-c"], "python": [sys.executable, "-c"]}
        done = subprocess.run(
            [*command[block.kind], code],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{block.code}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", [pytest.param(p, id=p.stem) for p in PAGES])
def test_no_command_of_ours_is_left_out(page: Path) -> None:
    left = [b.code for b in blocks(page) if not runs(b) and OURS.search(b.code)]
    assert left == [], f"mark them `sh` in {page.name}, so that they are run"

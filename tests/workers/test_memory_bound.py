"""A template that eats memory costs its row, not the machine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from command import CLI

BOMB = (
    "{% set ns = namespace(s='x' * 1000) %}"
    "{% if 'bomb' in messages[0].content %}"
    "{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}"
    "{% endif %}{{ messages[0].content }}{{ ns.s | length }}"
)


def test_a_memory_bomb_is_its_rows_reject(tmp_path: Path, tiny_models: Path) -> None:
    rows = [
        {"id": name, "messages": [{"role": "user", "content": name}]}
        for name in ("before", "bomb", "after")
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "bomb.jinja").write_text(BOMB)
    words = ["run", "-i", "in.jsonl", "-o", "out", "--local", "--model"]
    command = [*CLI, *words, str(tiny_models / "chatml")]
    subprocess.run([*command, "--chat-template", "bomb.jinja"], cwd=tmp_path, check=True)
    totals = json.loads((tmp_path / "out" / "_promptmill" / "run.json").read_text())["totals"]
    assert totals["rows_ok"] == 2
    assert totals["rejects"] == {"memory_exceeded": 1}

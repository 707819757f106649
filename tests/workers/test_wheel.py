"""The wheel that goes to a cluster holds all that runs here, and nothing that pip would fetch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from promptmill.workers.wheel import pack_wheel

ROOT = Path(__file__).resolve().parents[2]


def test_the_wheel_installs_by_itself_and_is_whole(tmp_path: Path) -> None:
    wheel, target = pack_wheel(tmp_path), tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--quiet", "--target", str(target)]
    subprocess.run([*pip, str(wheel)], check=True, stderr=subprocess.DEVNULL)
    for layer in ("workers", "pipeline", "schemas", "static"):
        here = {p.relative_to(ROOT) for p in (ROOT / layer).rglob("*") if p.is_file()}
        there = (target / "promptmill" / layer).rglob("*")
        installed = {p.relative_to(target / "promptmill") for p in there if p.is_file()}
        assert {p for p in here if "__pycache__" not in p.parts} == {
            p for p in installed if "__pycache__" not in p.parts
        }
    code = "import promptmill.workers.cli.app as m; print(m.__file__)"
    command = [sys.executable, "-c", code]
    run = subprocess.run(
        command, check=True, capture_output=True, text=True, env={"PYTHONPATH": str(target)}
    )
    assert run.stdout.startswith(str(target))


def test_the_same_code_is_the_same_file(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    first, second = pack_wheel(one), pack_wheel(two)
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()

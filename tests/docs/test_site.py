"""The documentation builds without a warning: no dead link, no page outside the navigation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from promptmill.schemas.errors import ErrorCode

ROOT = Path(__file__).resolve().parents[2]


def test_the_site_builds(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    options = (tmp_path / "options" / "index.html").read_text(encoding="utf-8")
    assert "--truncate-prompt-tokens" in options


def test_every_error_code_is_explained() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert [code for code in ErrorCode if f"| `{code}` |" not in page] == []

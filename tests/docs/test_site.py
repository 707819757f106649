"""The documentation builds without a warning: no dead link, no page outside the navigation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from runpy import run_path

from promptmill.schemas.errors import ErrorCode

ROOT = Path(__file__).resolve().parents[2]


def test_the_site_builds(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_page_of_options_is_that_of_the_command_line() -> None:
    made = run_path(str(ROOT / "infra" / "docs" / "hooks.py"))["options_page"]()
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    assert page == made, "python infra/docs/hooks.py writes it anew"


def test_every_error_code_is_explained() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert [code for code in ErrorCode if f"| `{code}` |" not in page] == []

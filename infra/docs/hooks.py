"""Pages of the site that are not kept as files: every option, and the security notes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = re.compile(r"\x08\nExamples:\n((?:  .*\n)+)")
"""As they stand at the end of a command's help."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """See mkdocs' event of this name."""
    pages = {"options.md": options_page()}
    security = ROOT / "SECURITY.md"
    if security.is_file():
        pages["security.md"] = security.read_text(encoding="utf-8").replace("](docs/", "](")
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    return files


def options_page() -> str:
    """What `promptmill --help` and the help of its commands say, as one page."""
    command = [sys.executable, "-m", "typer", "promptmill.workers.cli.app"]
    done = subprocess.run(
        [*command, "utils", "docs", "--name", "promptmill", "--title", "Every option"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    return EXAMPLES.sub(r"**Examples**:\n\n```console\n\1```\n", done.stdout)

"""Pages of the site that are made: every option, kept as docs/options.md, and the security notes.

python infra/docs/hooks.py      # write docs/options.md anew
"""

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
    security = (ROOT / "SECURITY.md").read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "security.md", content=security))
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


if __name__ == "__main__":
    (ROOT / "docs" / "options.md").write_text(options_page(), encoding="utf-8")

"""`promptmill status`: how far a run is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def status(
    output: Annotated[Path, typer.Argument(help="The output folder.", metavar="OUT")],
) -> None:
    """Progress and totals of a run, also while it runs and from another machine."""
    from promptmill.workers.status import status as lines  # see app.py

    for line in lines(output):
        typer.echo(line)

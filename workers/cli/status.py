"""`promptmill status`: how far a run is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def status(
    output: Annotated[str, typer.Argument(help="The output folder.", metavar="OUT")],
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again and again until the run is over.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(help="Write a page about it; with --watch it renews itself.", metavar="FILE"),
    ] = None,
) -> None:
    """Progress and totals of a run, also while it runs and from another machine."""
    from promptmill.pipeline.storage.place import place_of  # see app.py
    from promptmill.workers import watch as watching
    from promptmill.workers.output_folder import OutputFolder
    from promptmill.workers.status import look

    if watch:
        with watching.screen() as show:
            watching.watch(place_of(output), html, show)
        return
    seen = look(place_of(output))
    if html is not None:
        watching.write_page(OutputFolder(place_of(output)), html)
    for line in seen.lines:
        typer.echo(line)
    if html is not None:
        typer.echo(f"page: {html}")

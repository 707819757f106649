"""`promptmill report`: the page about a run, written anew."""

from __future__ import annotations

from typing import Annotated

import typer

from promptmill.workers.cli.voice import VOICE


def report(
    output: Annotated[str, typer.Argument(help="The output folder.", metavar="OUT")],
) -> None:
    """Write OUT/_promptmill/report.html again; a run writes it at its end by itself."""
    from promptmill.pipeline.storage.place import place_of  # see app.py
    from promptmill.workers.report import write_report

    VOICE.say(str(write_report(place_of(output))))

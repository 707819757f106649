"""`promptmill export`: a finished run in a form that other tools read."""

from __future__ import annotations

from typing import Annotated

import typer

from promptmill.schemas.export import ExportTo
from promptmill.workers.cli.voice import VOICE


def export(
    output: Annotated[str, typer.Argument(help="The folder of a finished run.", metavar="OUT")],
    to: Annotated[
        ExportTo,
        typer.Option(help="Who reads it: Megatron (.bin, .idx), datasets.load_from_disk, vLLM."),
    ],
    destination: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            help="A new file or folder; for megatron what the names of both files begin with.",
            metavar="DEST",
        ),
    ],
) -> None:
    """Write a finished run for Megatron, for Hugging Face datasets, or as requests for vLLM."""
    from promptmill.workers.export import export as write  # see app.py
    from promptmill.workers.summary import counted

    done = write(output, to, destination)
    for note in done.notes:
        VOICE.warn(note)
    VOICE.say(f"{counted(done.rows, 'row')}, {counted(done.tokens, 'token')}: {destination}")

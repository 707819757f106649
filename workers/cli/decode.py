"""`promptmill decode`: engine outputs back to answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from promptmill.schemas.errors import JobError
from promptmill.workers.cli.voice import VOICE


def decode(
    inputs: Annotated[
        list[str],
        typer.Option(
            "-i",
            "--input",
            help="A Parquet file with output ids, or a folder of them; may be repeated.",
            metavar="IN",
        ),
    ],
    output: Annotated[
        str, typer.Option("-o", "--output", help="A new JSONL file of answers.", metavar="OUT")
    ],
    model: Annotated[str, typer.Option(help="The model that answered: a folder or a hub id.")],
    revision: Annotated[str | None, typer.Option(help="Hub revision.")] = None,
    tokenizer_mode: Annotated[str, typer.Option(help="As for run.")] = "auto",
    ids_column: Annotated[
        str | None, typer.Option(help="The column of output ids, where its name is unusual.")
    ] = None,
    served_model_name: Annotated[
        str | None,
        typer.Option(help="The model's name in answers to rows that name none; else --model's."),
    ] = None,
    thinking: Annotated[
        bool, typer.Option(help="DeepSeek: answers begin with reasoning, unless rows say.")
    ] = True,
    tool_calls: Annotated[
        bool, typer.Option(help="DeepSeek: look for tool calls, unless rows say.")
    ] = True,
) -> None:
    """Turn an engine's output ids into OpenAI batch lines; DeepSeek's are parsed, too."""
    from promptmill.workers.decode import DecodeJob, decode_outputs  # see app.py

    if "://" in output:
        raise JobError(f"-o {output} is a URL. Name a file of this machine, and copy it there.")
    job = DecodeJob(
        inputs=tuple(inputs),
        output=Path(output),
        model=model,
        revision=revision,
        tokenizer_mode=tokenizer_mode,
        ids_column=ids_column,
        served_model_name=served_model_name,
        thinking=thinking,
        tool_calls=tool_calls,
    )
    VOICE.say(decode_outputs(job, VOICE.warn))

"""`promptmill verify`: a finished run held against a live server."""

from __future__ import annotations

import json
import logging
from typing import Annotated

import typer


def verify(
    output: Annotated[str, typer.Argument(help="The output folder of a run.", metavar="OUT")],
    server: Annotated[
        str, typer.Option(help="Where the server listens: http://localhost:8000.", metavar="URL")
    ],
    sample: Annotated[
        str, typer.Option(help="How many prompts, rejects among them, or all.", metavar="N|all")
    ] = "100",
    seed: Annotated[int, typer.Option(help="Of the draw: the same prompts again.")] = 0,
    served_model: Annotated[
        str | None,
        typer.Option(help="The name that the server has for the model; its first by default."),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            help="The server's key; better put it into the environment.",
            envvar=["PROMPTMILL_API_KEY", "VLLM_API_KEY"],
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds for one answer.", min=0.001)] = 60.0,
    connections: Annotated[
        int, typer.Option(help="Prompts that are asked at the same time.", min=1, max=64)
    ] = 4,
    media_family: Annotated[
        str | None, typer.Option(help="As the run was given it.", metavar="FILE")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Send a run's source rows to a server and compare its ids: exit code 1 where any differ."""
    from promptmill.pipeline.storage.place import place_of  # see app.py
    from promptmill.workers.finished_run import FinishedRun
    from promptmill.workers.output_folder import no_run_in
    from promptmill.workers.verify import report
    from promptmill.workers.verify.client import Server
    from promptmill.workers.verify.run import verify as verify_run

    logging.getLogger("urllib3").setLevel(logging.ERROR)  # it tells of every second attempt
    size = None if sample == "all" else _size(sample)
    run = FinishedRun.open(place_of(output), media_family)
    if run is None:
        raise no_run_in(output)
    made = verify_run(
        run,
        Server(server, api_key=api_key, timeout=timeout, connections=connections),
        size=size,
        seed=seed,
        model=served_model,
        connections=connections,
        tell=lambda line: typer.echo(line, err=True),
    )
    if as_json:
        typer.echo(json.dumps(report.plain(made), ensure_ascii=False, indent=1))
    else:
        for line in report.lines(made):
            typer.echo(line)
    raise typer.Exit(0 if made.passed else 1)


def _size(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise typer.BadParameter(f"--sample {text}: expected a number or all")
    return int(text)

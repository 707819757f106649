"""`promptmill submit`: the same job on a Ray cluster."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from promptmill.schemas.options import JobOptions
from promptmill.workers.cli.options import as_arguments, takes_job
from promptmill.workers.cli.run import LogFormatOption
from promptmill.workers.cli.voice import VOICE
from promptmill.workers.logs import LogFormat

PROGRAM = ("python", "-m", "promptmill.workers.cli", "run")
DETACHED = 130


def _submit(
    job: JobOptions,
    *,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait/--no-wait",
            help="Follow the job's log and end with its exit code, or return at once.",
        ),
    ] = True,
    runtime_env: Annotated[
        Path | None,
        typer.Option(
            "--runtime-env",
            help="A YAML file of what else the job needs on the cluster: pip, env_vars, ...",
            metavar="FILE",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Run a job on the Ray cluster whose dashboard is at --address; once an output folder."""
    from promptmill.workers.shipping import ship  # see app.py
    from promptmill.workers.submission import Cluster

    shipped = ship(job)
    for warning in shipped.warnings:
        typer.echo(warning, err=True)
    cluster = Cluster(job.address)
    if (last := cluster.finished(shipped)) is not None and (
        code := _finished(shipped.options)
    ) is not None:
        _say(f"finished already, by {last}")
        raise typer.Exit(code)
    form = [] if log_format is LogFormat.TEXT else ["--log-format", log_format]
    command = shlex.join([*PROGRAM, *as_arguments(shipped.options), *form])
    started = cluster.start(shipped, command, runtime_env)
    stop = f"ray job stop --address {cluster.address} {started.id}"
    _say(f"{'attached to' if started.attached else 'submitted'} {started.id}")
    if not wait:
        if VOICE.quiet:
            typer.echo(started.id)
        _say(f"follow it: the same command without --no-wait; stop it: {stop}")
        return
    try:
        code = cluster.follow(started.id, _show)
    except KeyboardInterrupt:
        _say(f"detached: {started.id} goes on. Follow it: the same command; stop it: {stop}")
        code = DETACHED
    raise typer.Exit(code)


submit = takes_job(
    _submit,
    name="submit",
    helps={
        "address": "The cluster's dashboard, as http://HOST:8265; else what Ray's variables say."
    },
)


def _finished(job: JobOptions) -> int | None:
    """The exit code of the output's run, shown; None where it is not finished or not seen here.

    The output may have been removed since its job ended. Where this machine does not see it, the
    run on the cluster is asked to look.
    """
    from promptmill.workers.outcome import exit_code
    from promptmill.workers.output_folder import OutputFolder
    from promptmill.workers.status import look

    if "://" in job.output:
        return None
    record = OutputFolder(Path(job.output)).read_record()
    if record is None or record.totals is None:
        return None
    for line in look(Path(job.output)).lines:
        typer.echo(line)
    return exit_code(record.totals, job.max_rejects)


def _say(line: str) -> None:
    if not VOICE.quiet:
        typer.echo(line, err=True)


def _show(text: str) -> None:
    typer.echo(text, nl=False)

"""`promptmill run`: the main job."""

from __future__ import annotations

from typing import Annotated

import typer

from promptmill.schemas.options import JobOptions
from promptmill.workers import environment
from promptmill.workers.cli.options import takes_job
from promptmill.workers.cli.voice import VOICE
from promptmill.workers.logs import LogFormat, about

LogFormatOption = Annotated[
    LogFormat, typer.Option("--log-format", help="Lines of text, or one JSON object a line.")
]


@takes_job
def run(job: JobOptions, *, log_format: LogFormatOption = LogFormat.TEXT) -> None:
    """Render and tokenize the input; the same command again continues a run that was stopped."""
    environment.prepare_process()
    from promptmill.workers import run as run_life  # see app.py
    from promptmill.workers.progress import reporter
    from promptmill.workers.tuning import bound_memory, leave_pandas_out

    VOICE.log_as(log_format)
    leave_pandas_out()
    if job.local:
        bound_memory()
    told = reporter(quiet=VOICE.quiet, form=log_format)
    outcome = run_life.run(job, told, log_format)
    with about(run=outcome.run):
        for line in outcome.lines:
            told.say(line) if log_format is LogFormat.JSON else VOICE.tell(line)
    raise typer.Exit(outcome.exit_code)

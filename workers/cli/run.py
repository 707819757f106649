"""`promptmill run`: the main job."""

from __future__ import annotations

import typer

from promptmill.schemas.options import JobOptions
from promptmill.workers.cli.options import takes_job
from promptmill.workers.cli.voice import VOICE


@takes_job
def run(job: JobOptions) -> None:
    """Render and tokenize the input; the same command again continues a run that was stopped."""
    from promptmill.workers import run as run_life  # see app.py
    from promptmill.workers.progress import reporter
    from promptmill.workers.tuning import bound_memory, leave_pandas_out

    leave_pandas_out()
    if job.local:
        bound_memory()
    outcome = run_life.run(job, reporter(quiet=VOICE.quiet))
    for line in outcome.lines:
        VOICE.say(line)
    raise typer.Exit(outcome.exit_code)

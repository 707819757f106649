"""The `promptmill` command. It ends with 0 done, 1 failed, 2 wrong arguments, 3 too many rejects.

Commands import what they need when they run: `promptmill --help` must not wait for Ray or
transformers.
"""

from __future__ import annotations

import sys

import typer

from promptmill.schemas.errors import JobError
from promptmill.workers.cli.decode import decode
from promptmill.workers.cli.export import export
from promptmill.workers.cli.inspect import inspect
from promptmill.workers.cli.logs import show_few
from promptmill.workers.cli.plan import plan
from promptmill.workers.cli.report import report
from promptmill.workers.cli.run import run
from promptmill.workers.cli.status import status
from promptmill.workers.cli.submit import submit
from promptmill.workers.cli.verify import verify

app = typer.Typer(
    help="Render and tokenize prompts offline, exactly as the serving front end would.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command()(run)
app.command()(submit)
app.command()(plan)
app.command()(status)
app.command()(report)
app.command()(inspect)
app.command()(verify)
app.command()(export)
app.command()(decode)


def main() -> None:
    """Run the command line and end the process."""
    show_few()
    try:
        app()
    except (JobError, OSError) as error:
        typer.echo(f"promptmill: {error}", err=True)
        sys.exit(1)

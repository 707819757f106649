"""How much a command says. The command line sets it once, before the command begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import typer

from promptmill.workers.cli.logs import show_all, show_few
from promptmill.workers.logs import LogFormat

WARNING: Final = "warning: "
"""How a warning's line begins."""


@dataclass(slots=True)
class Voice:
    """What `--quiet` and `--verbose` asked for."""

    quiet: bool = False
    verbose: bool = False
    form: LogFormat = LogFormat.TEXT
    """Of all that goes to stderr."""

    def set(self, *, quiet: bool, verbose: bool) -> None:
        """Take what a command line says.

        Raises:
            typer.BadParameter: it asks for both.
        """
        if quiet and verbose:
            raise typer.BadParameter("--quiet and --verbose exclude each other; give one")
        self.quiet, self.verbose, self.form = quiet, verbose, LogFormat.TEXT
        if verbose:
            show_all()

    def log_as(self, form: LogFormat) -> None:
        """Take the format of the log that a command was asked for."""
        self.form = form
        if not self.verbose:
            show_few(form)

    def say(self, line: str) -> None:
        """Print what a person may want to know, and a program does not need."""
        if not self.quiet:
            typer.echo(line)

    def warn(self, what: str) -> None:
        """Print a warning, also where it is to be quiet."""
        typer.echo(f"{WARNING}{what}", err=True)

    def tell(self, line: str) -> None:
        """Print a line of a report that may have warnings in it, which are never left out."""
        if self.quiet and line.startswith(WARNING):
            self.warn(line.removeprefix(WARNING))
        else:
            self.say(line)


VOICE = Voice()
"""Of this process."""

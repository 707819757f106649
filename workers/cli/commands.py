"""How a function becomes a command: options that all commands have, examples in the help."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Annotated

import typer

from promptmill.workers.cli.voice import VOICE

Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing but warnings and errors.")]
Verbose = Annotated[
    bool, typer.Option("-v", "--verbose", help="Log everything; exceptions may quote rows.")
]
_COMMON = {"ctx": typer.Context, "quiet": Quiet, "verbose": Verbose}


def add_command(
    app: typer.Typer, function: Callable[..., None], summary: str, *examples: str
) -> None:
    """Make a function a command, under its own name.

    Args:
        app: gets the command.
        function: its parameters are declared as typer wants them.
        summary: what the list of commands says of it, in a few words.
        examples: command lines for its help.
    """
    signature = inspect.signature(function, eval_str=True)

    def run(*, ctx: typer.Context, quiet: bool, verbose: bool, **given: object) -> None:
        if os.environ.get("NO_COLOR"):  # https://no-color.org
            ctx.color = False
        VOICE.set(quiet=quiet, verbose=verbose)
        function(**given)

    common = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=kind,
            default=inspect.Parameter.empty if name == "ctx" else False,
        )
        for name, kind in _COMMON.items()
    ]
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in signature.parameters.values()
    ]
    run.__signature__ = inspect.Signature([*own, *common])  # type: ignore[attr-defined]  # what typer reads
    run.__doc__ = function.__doc__
    # \b keeps the lines as they are.
    epilog = "\n".join(["\b", "Examples:", *(f"  {example}" for example in examples)])
    app.command(function.__name__, short_help=summary, epilog=epilog)(run)

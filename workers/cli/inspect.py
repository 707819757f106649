"""`promptmill inspect`: one row with everything that decided it."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from promptmill.schemas.options import JobOptions
from promptmill.workers.cli.options import takes_job

if TYPE_CHECKING:
    from promptmill.pipeline.explain import Explanation

OF_A_RUN: Final = frozenset(
    {
        "output",
        "columns",
        "with_text",
        "with_offsets",
        "pack",
        "format",
        "compression",
        "rows_per_shard",
        "shard_bytes",
        "workers",
        "local",
        "address",
        "engine",
        "segment_cache",
        "on_error",
        "max_rejects",
        "report_content",
    }
)
"""Options that decide nothing about one row: taken, so that a run's command needs no editing."""


def _inspect(
    job: JobOptions,
    *,
    row_id: Annotated[str | None, typer.Option("--id", help="The row's id.")] = None,
    row: Annotated[
        int | None,
        typer.Option(help="The row's number, from 0, in its file, or in a part if IN is one."),
    ] = None,
    source: Annotated[str | None, typer.Option(help="The row's file, where several are.")] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page to look at instead.", metavar="FILE")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Look at one row: its text, every id, and which rule cut what.

    A run's folder, or one of its parts, brings the options of the run. Options of `run` that
    decide nothing about a row are not listed; they are taken and do nothing.
    """
    from promptmill.workers.cli.inspect_lines import lines  # see app.py
    from promptmill.workers.inspect_page import page
    from promptmill.workers.inspect_row import Wanted, inspect_row

    if (row_id is None) == (row is None):
        raise typer.BadParameter("name the row by --id or by --row")
    if html is not None and as_json:
        raise typer.BadParameter("--html and --json exclude each other")
    found = inspect_row(job, Wanted(row_id, row, source))
    if html is not None:
        html.write_text(page(found), encoding="utf-8")
        typer.echo(f"{html}")
    elif as_json:
        plain = [_plain(one) | {"notes": [*found.notes]} for one in found.prompts]
        typer.echo(json.dumps(plain, ensure_ascii=False, indent=1))
    else:
        for line in lines(found):
            typer.echo(line, color=False if os.environ.get("NO_COLOR") else None)


inspect = takes_job(
    _inspect,
    name="inspect",
    writes=False,
    helps={"more": "A run's folder, one of its parts, or inputs beside a --model."},
    hidden=OF_A_RUN,
)


def _plain(one: Explanation) -> dict[str, object]:
    """An explanation as JSON has it."""
    row, error = one.row, one.error
    return {
        "custom_id": one.custom_id,
        "prompt_index": one.prompt_index,
        "error": None if error is None else {"code": error.code, "message": error.message},
        "prompt": one.text,
        "tokens": [dataclasses.asdict(token) for token in one.tokens],
        "budget": None if one.budget is None else dataclasses.asdict(one.budget),
        "rules": [*one.rules],
        "mm_placeholders": [] if row is None else [dataclasses.asdict(s) for s in row.spans],
        "request": None if row is None else row.request.passthrough,
        "warnings": [] if row is None else list(row.warnings),
    }

"""`promptmill inspect`: one row with everything that decided it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from promptmill.schemas.options import JobOptions
from promptmill.workers.cli.options import takes_job

if TYPE_CHECKING:
    from promptmill.pipeline.explain import BudgetSheet, Explanation, TokenView

COLOURS = {"control": "magenta", "media": "cyan", "padding": "bright_black"}


def _inspect(
    job: JobOptions,
    *,
    row_id: Annotated[str | None, typer.Option("--id", help="The row's id.")] = None,
    row: Annotated[int | None, typer.Option(help="The row's number in its file, from 0.")] = None,
    source: Annotated[str | None, typer.Option(help="The row's file, where several are.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Look at one row: its text, every id, and which rule cut what. IN may be a run's folder."""
    from promptmill.workers.inspect_row import Wanted, inspect_row  # see app.py

    if (row_id is None) == (row is None):
        raise typer.BadParameter("name the row by --id or by --row")
    found = inspect_row(job, Wanted(row_id, row, source))
    if as_json:
        typer.echo(json.dumps([_plain(one) for one in found], ensure_ascii=False, indent=1))
        return
    for one in found:
        for line in _lines(one):
            typer.echo(line)


inspect = takes_job(_inspect, name="inspect", writes=False)


def _plain(one: Explanation) -> dict[str, object]:
    """An explanation as JSON has it."""
    row, error = one.row, one.error
    return {
        "custom_id": one.custom_id,
        "prompt_index": one.prompt_index,
        "error": None if error is None else {"code": error.code, "message": error.message},
        "prompt": None if row is None else row.text,
        "tokens": [dataclasses.asdict(token) for token in one.tokens],
        "budget": None if one.budget is None else dataclasses.asdict(one.budget),
        "mm_placeholders": [] if row is None else [dataclasses.asdict(s) for s in row.spans],
        "request": None if row is None else row.request.passthrough,
        "warnings": [] if row is None else list(row.warnings),
    }


def _lines(one: Explanation) -> Iterator[str]:
    yield typer.style(f"{one.custom_id} (prompt {one.prompt_index})", bold=True)
    if one.error is not None:
        yield typer.style(f"rejected: {one.error.code}: {one.error.message}", fg="red")
    if one.row is None or one.budget is None:
        return
    yield from ("", "text:", one.row.text if one.row.text is not None else "(came as ids)", "")
    yield from _budget(one.budget)
    for span, resized in zip(one.row.spans, one.sizes, strict=True):
        grid = f", grid {'x'.join(map(str, span.grid))}" if span.grid else ""
        size = "" if resized is None else f", resized to {resized[0]}x{resized[1]}"
        yield (
            f"{span.modality} {span.index}: ids {span.offset}..{span.offset + span.length}"
            f" ({span.length}){grid}{size}, {span.hash[:16]}"
        )
    yield from (f"warning: {warning}" for warning in one.row.warnings)
    yield f"request: {json.dumps(one.row.request.passthrough, ensure_ascii=False)}"
    yield from ("", f"{'index':>6} {'id':>8} {'offsets':>13}  kind     piece")
    yield from map(_token, one.tokens)


def _budget(sheet: BudgetSheet) -> Iterator[str]:
    asked = sheet.truncate_prompt_tokens
    kept = "none" if asked is None else f"{asked} (keeps {sheet.resolved_truncation})"
    chars = "-" if sheet.num_chars is None else f"{sheet.num_chars}"
    yield f"context length       {sheet.max_model_len}"
    yield f"characters           {chars} (gate {sheet.max_chars})"
    yield f"ids rendered         {sheet.rendered_tokens} (before media are expanded)"
    yield f"ids expanded         {sheet.expanded_tokens}"
    yield f"truncation           {kept}, side {sheet.truncation_side}"
    yield f"ids kept             {sheet.kept_tokens}"
    yield f"ids cut              {sheet.truncated_left} left, {sheet.truncated_right} right"
    left = "-" if sheet.max_tokens is None else sheet.max_tokens
    yield f"output               asked {sheet.max_output_tokens}, resolved {left}"
    yield ""


def _token(token: TokenView) -> str:
    where = "-" if token.offsets is None else f"{token.offsets[0]}..{token.offsets[1]}"
    mark = " *" if token.in_mask else ""
    piece = typer.style(repr(token.piece), fg=COLOURS.get(token.kind))
    return f"{token.index:6} {token.id:8} {where:>13}  {token.kind:8} {piece}{mark}"

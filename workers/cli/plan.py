"""`promptmill plan`: what `run` would do; runs nothing and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
import yaml

from promptmill.schemas.options import JobOptions
from promptmill.workers.cli.options import takes_job

if TYPE_CHECKING:
    from promptmill.workers.job import Job

MOST_SHARDS = 50
"""Shards that are listed."""


@takes_job
def plan(
    job: JobOptions,
    *,
    media_table: Annotated[
        bool,
        typer.Option(
            "--media-table", help="Show sizes and tokens of the first media items instead."
        ),
    ] = False,
) -> None:
    """Show the resolved job, its shards and its fingerprint. The output is a file for --config."""
    from promptmill.workers.job import resolve_job  # see app.py

    resolved = resolve_job(job)
    for line in _media(resolved) if media_table else _job(resolved):
        typer.echo(line)


def _media(resolved: Job) -> Iterator[str]:
    from promptmill.workers.media_table import media_table

    return media_table(resolved).text()


def _job(resolved: Job) -> Iterator[str]:
    from promptmill.workers.summary import counted

    shards = resolved.plan.shards
    yield f"# job {resolved.fingerprint}"
    for warning in resolved.warnings:
        yield f"# warning: {warning}"
    yield (
        f"# {counted(resolved.plan.rows, 'row')} of "
        f"{counted(len(resolved.plan.files), 'file')} in {counted(len(shards), 'shard')}"
    )
    for shard in shards[:MOST_SHARDS]:
        yield (
            f"#   {shard.index:05d} {shard.file.name} {shard.start}-{shard.stop}: rows "
            f"{shard.first_row} to {shard.first_row + shard.rows - 1}"
        )
    if len(shards) > MOST_SHARDS:
        yield f"#   and {len(shards) - MOST_SHARDS:,} more"
    options = {name: v for name, v in resolved.options.shown().items() if v is not None}
    yield yaml.safe_dump(options, sort_keys=False, allow_unicode=True).removesuffix("\n")

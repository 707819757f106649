"""`promptmill plan`: what `run` would do; runs nothing and writes nothing."""

from __future__ import annotations

import typer
import yaml

from promptmill.schemas.options import JobOptions
from promptmill.workers.cli.options import takes_job

MOST_SHARDS = 50
"""Shards that are listed."""


@takes_job
def plan(job: JobOptions) -> None:
    """Show the resolved job, its shards and its fingerprint. The output is a file for --config."""
    from promptmill.workers.job import resolve_job  # see app.py
    from promptmill.workers.summary import counted

    resolved = resolve_job(job)
    shards = resolved.plan.shards
    typer.echo(f"# job {resolved.fingerprint}")
    for warning in resolved.warnings:
        typer.echo(f"# warning: {warning}")
    typer.echo(
        f"# {counted(resolved.plan.rows, 'row')} of "
        f"{counted(len(resolved.plan.files), 'file')} in {counted(len(shards), 'shard')}"
    )
    for shard in shards[:MOST_SHARDS]:
        typer.echo(
            f"#   {shard.index:05d} {shard.file.name} {shard.start}-{shard.stop}: rows "
            f"{shard.first_row} to {shard.first_row + shard.rows - 1}"
        )
    if len(shards) > MOST_SHARDS:
        typer.echo(f"#   and {len(shards) - MOST_SHARDS:,} more")
    options = resolved.options.model_dump(mode="json", exclude_none=True)
    typer.echo(yaml.safe_dump(options, sort_keys=False, allow_unicode=True), nl=False)

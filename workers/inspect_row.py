"""Finds the row to look at: in an input, or in the input of a finished run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.explain import Explanation, explain_row
from promptmill.pipeline.model.bundle_cache import load_bundle_cached
from promptmill.pipeline.parse.rows import parse_row
from promptmill.pipeline.read.plan import plan_input
from promptmill.pipeline.read.rows import read_shard
from promptmill.schemas.errors import JobError
from promptmill.schemas.options import JobOptions
from promptmill.schemas.request import RawRow
from promptmill.workers.output_folder import OutputFolder


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which row: by its id, or by its place."""

    custom_id: str | None = None
    row_index: int | None = None
    source: str | None = None

    def is_row(self, row: RawRow, options: JobOptions) -> bool:
        """Whether this is the row."""
        if self.source is not None and row.source != self.source:
            return False
        if self.row_index is not None:
            return row.row_index == self.row_index
        names = {item.custom_id or "" for item in parse_row(row, options)}
        # The prompts of a row that has several carry its id and a number.
        return self.custom_id in names | {name.rpartition("-")[0] for name in names}


def inspect_row(options: JobOptions, wanted: Wanted) -> list[Explanation]:
    """Every prompt of one row, taken through the encoder.

    Args:
        options: of a run that might be made, or with a finished run's folder as the only input
            and no model: that run's own.
        wanted: the row.

    Raises:
        JobError: there is no such row, or the model or the input cannot be used.
    """
    options, clock = _resolved(options)
    row = next(_matching(options, wanted), None)
    if row is None:
        raise JobError(f"There is no row {wanted.custom_id or wanted.row_index} in the input.")
    encoder = Encoder(load_bundle_cached(options), options, clock)
    return explain_row(encoder, row)


def _resolved(options: JobOptions) -> tuple[JobOptions, datetime]:
    if options.model:
        return options, options.clock or datetime.now(UTC).astimezone()
    record = None
    if len(options.input) == 1:
        record = OutputFolder(Path(options.input[0])).read_record()
    if record is None:
        raise JobError(
            "Name a --model and an input, or the output folder of a finished run, whose options "
            "are taken."
        )
    # What a folder says is not run: a media family of one's own is given again, with the model.
    made = JobOptions.model_validate({**record.options, "media_family": None})
    return made, datetime.fromisoformat(record.clock)


def _matching(options: JobOptions, wanted: Wanted) -> Iterator[RawRow]:
    for shard in plan_input(options).shards:
        if wanted.row_index is not None and not (
            shard.first_row <= wanted.row_index < shard.first_row + shard.rows
        ):
            continue
        for row in read_shard(shard, options):
            if wanted.is_row(row, options):
                yield row

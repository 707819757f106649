"""Finds the row to look at: in an input, or in a finished run and the input that it was made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.explain import Explanation, explain_row
from promptmill.pipeline.model.bundle_cache import load_bundle_cached
from promptmill.pipeline.parse.rows import parse_row
from promptmill.pipeline.read.plan import plan_input
from promptmill.pipeline.read.rows import read_shard
from promptmill.pipeline.read.stored import StoredPart
from promptmill.pipeline.storage.place import place_of
from promptmill.schemas.errors import JobError
from promptmill.schemas.options import EngineName, JobOptions
from promptmill.schemas.request import RawRow
from promptmill.schemas.shard import Plan
from promptmill.workers.finished_run import FinishedRun
from promptmill.workers.output_folder import PART
from promptmill.workers.summary import counted

MOST_NAMED: Final = 5
"""Files that a message names."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which row: by its id, or by its place."""

    custom_id: str | None = None
    row_index: int | None = None
    """In the input file, or in a part where one is named."""
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


@dataclass(frozen=True, slots=True)
class Inspected:
    """A row of which every prompt was looked at."""

    prompts: list[Explanation]
    place: str
    """Where the row stands."""
    notes: Sequence[str] = ()
    """What was noticed beside the row's own warnings."""


def inspect_row(options: JobOptions, wanted: Wanted) -> Inspected:
    """Every prompt of one row, taken through the encoder.

    Args:
        options: of a run that might be made, or with no model and a finished run as the only
            input: its folder or one of its parts.
        wanted: the row.

    Raises:
        JobError: there is no such row, it is blank, or the model or the input cannot be used.
    """
    if options.model:
        clock = options.clock or datetime.now(UTC).astimezone()
        encoder = _encoder(options, clock)
        _, row = _find(plan_input(options), options, wanted)
        return _inspected(row, explain_row(encoder, row))
    run, part = _run_of(options)
    plan = run.plan()
    if part is not None and wanted.row_index is not None:
        wanted = _place(part, wanted.row_index)
    elif wanted.custom_id is not None:
        wanted = _stored_under(run, wanted.custom_id) or wanted
    shard, row = _find(plan, run.options, wanted)
    encoder = _encoder(run.options, run.clock)
    prompts = explain_row(encoder, row)
    return _inspected(row, prompts, [*_compared(encoder, run, shard, prompts)])


def _encoder(options: JobOptions, clock: datetime) -> Encoder:
    # Offsets tell which characters became which ids, whether they are stored or not.
    options = options.model_copy(update={"with_offsets": True, "engine": EngineName.TOKENIZERS})
    return Encoder(load_bundle_cached(options), options, clock)


def _inspected(row: RawRow, prompts: list[Explanation], notes: Sequence[str] = ()) -> Inspected:
    place = f"{row.source} row {row.row_index}"
    if not prompts:
        raise JobError(f"{place} is a blank line, which gives no prompt. Name another row.")
    return Inspected(prompts, place, notes)


def _run_of(options: JobOptions) -> tuple[FinishedRun, StoredPart | None]:
    """The run that the only input names, and the part if it names one."""
    path = place_of(options.input[0])
    is_part = PART.fullmatch(path.name) is not None
    run = None
    if len(options.input) == 1:
        run = FinishedRun.open(path.parent if is_part else path, options.media_family)
    if run is None:
        named = ", ".join(options.input[:MOST_NAMED])
        raise JobError(
            f"{named} {'holds no run' if path.exists() else 'does not exist'}, and no --model is "
            "given. Name the output folder of a run, one of its parts, or an input and a --model."
        )
    return run, StoredPart(path) if is_part else None


def _place(part: StoredPart, position: int) -> Wanted:
    """Where the row at a position of a part comes from."""
    for row in part.read([position]):
        return Wanted(row_index=int(str(row["row_index"])), source=str(row["source"]))
    raise JobError(f"{part.path} has no row {position}: it has {part.rows}, counted from 0.")


def _stored_under(run: FinishedRun, custom_id: str) -> Wanted | None:
    """Where the stored prompt of an id comes from: parts are looked through faster than inputs."""
    for shard, _ in run.committed():
        part = run.part(shard)
        position = part.find(custom_id)
        if position is not None:
            return _place(part, position)
    return None


def _find(plan: Plan, options: JobOptions, wanted: Wanted) -> tuple[int, RawRow]:
    """The number of the row's shard, and the row."""
    for shard in plan.shards:
        if wanted.row_index is not None and not (
            shard.first_row <= wanted.row_index < shard.first_row + shard.rows
        ):
            continue
        for row in read_shard(shard, options):
            if wanted.is_row(row, options):
                return shard.index, row
    raise JobError(_nowhere(plan, wanted))


def _nowhere(plan: Plan, wanted: Wanted) -> str:
    """What was looked through for a row that is not there."""
    rows: dict[str, int] = {}
    for shard in plan.shards:
        rows[shard.file.name] = shard.first_row + shard.rows
    if not rows:
        return "The input has no rows."
    names = [name for name in rows if wanted.source in (None, name)]
    if not names:
        return f"The input has no file {wanted.source}. It has {_some([*rows])}."
    files = _some([f"{name} ({counted(rows[name], 'row')})" for name in names])
    if wanted.row_index is not None:
        return f"There is no row {wanted.row_index} in {files}. Rows are counted from 0."
    return (
        f"No row has the id {wanted.custom_id}: looked through {files}. Name it as custom_id has "
        "it, or by --row, its number."
    )


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (
        f" and {counted(more, 'more file')}" if more > 0 else ""
    )


def _compared(
    encoder: Encoder, run: FinishedRun, shard: int, prompts: Sequence[Explanation]
) -> Iterator[str]:
    """Whether the run stored what is made of the row now."""
    if run.folder.read_receipt(shard) is None:
        yield "The row's part is not written yet."
        return
    part = run.part(shard)
    for one in prompts:
        position = part.find(one.custom_id)
        stored = None if position is None else next(part.read([position]))
        if one.row is None or one.error is not None:
            if stored is not None:
                yield f"{one.custom_id} is refused now, and the run stored it."
        elif stored is None:
            yield f"{one.custom_id} is made now, and the run rejected it."
        elif stored["prompt_token_ids"] != encoder.media.stored(one.row).ids.tolist():
            yield f"The ids that the run stored of {one.custom_id} are others: compare versions."

"""The prompts that are looked at: drawn over all rows and rejects of a run, read in their order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from promptmill.pipeline.read.rows import read_shard
from promptmill.schemas.errors import JobError
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.reject import original_row
from promptmill.schemas.request import RawRow
from promptmill.schemas.shard import Plan
from promptmill.workers.finished_run import FinishedRun


@dataclass(frozen=True, slots=True)
class Sampled:
    """One prompt, or the reject of one, and the row that it was made of."""

    custom_id: str
    source: str
    row_index: int
    prompt_index: int
    raw: RawRow
    stored: Mapping[str, object] | None
    """The token row."""
    reject: JsonObject | None
    """Otherwise the line of the rejects file."""


@dataclass(frozen=True, slots=True)
class Share:
    """What is looked at of one shard: positions, rising."""

    shard: int
    rows: Sequence[int]
    rejects: Sequence[int]


def draw(run: FinishedRun, size: int | None, seed: int) -> list[Share]:
    """Choose prompts, each with the same chance; the same for the same run, size and seed.

    Args:
        run: the run.
        size: how many; None (or more than there are): all.
        seed: of the draw.
    """
    counts = [(shard, t.rows_ok, t.rows_rejected) for shard, t in run.committed()]
    total = sum(ok + rejected for _, ok, rejected in counts)
    chosen: Sequence[int] = range(total)
    if size is not None and size < total:
        chosen = sorted(random.Random(seed).sample(chosen, size))
    shares: list[Share] = []
    start = 0
    for shard, ok, rejected in counts:
        stop = start + ok + rejected
        inside = [n - start for n in chosen if start <= n < stop]
        if inside:
            rejects = [n - ok for n in inside if n >= ok]
            shares.append(Share(shard, [n for n in inside if n < ok], rejects))
        start = stop
    return shares


def read_sample(run: FinishedRun, plan: Plan, shares: Sequence[Share]) -> Iterator[Sampled]:
    """The prompts with their source rows, shard by shard: rows, then rejects.

    Raises:
        JobError: a part does not go with its input.
    """
    for share in shares:
        if share.rows:
            yield from _rows(run, plan, share)
        wanted = set(share.rejects)
        for position, line in enumerate(run.rejects(share.shard) if wanted else ()):
            if position in wanted:
                yield _reject(line)


def _rows(run: FinishedRun, plan: Plan, share: Share) -> Iterator[Sampled]:
    """A part and its input go in one order, so both are read once and side by side."""
    sources = iter(read_shard(plan.shards[share.shard], run.options))
    raw = next(sources, None)
    for row in run.part(share.shard).read(share.rows):
        index = row["row_index"]
        while raw is not None and raw.row_index != index:
            raw = next(sources, None)
        if raw is None:
            raise JobError(
                f"Row {index} of {row['source']} is in its part and not in the input. Put the "
                "input of the run back."
            )
        yield Sampled(
            custom_id=str(row["custom_id"]),
            source=str(row["source"]),
            row_index=raw.row_index,
            prompt_index=int(str(row["prompt_index"])),
            raw=raw,
            stored=row,
            reject=None,
        )


def _reject(line: JsonObject) -> Sampled:
    source, row = str(line["source"]), int(str(line["row_index"]))
    return Sampled(
        custom_id=str(line["custom_id"]),
        source=source,
        row_index=row,
        prompt_index=int(str(line["prompt_index"])),
        raw=RawRow(source, row, original_row(line)),
        stored=None,
        reject=line,
    )

"""What media cost, before any run: sizes and ids of the first items of an input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final

from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.expand import MediaStep
from promptmill.pipeline.intake import Intake
from promptmill.pipeline.media import load_expander
from promptmill.pipeline.media.base import AudioInfo, MediaInfo, VideoInfo
from promptmill.pipeline.media.expander import Measured
from promptmill.pipeline.read.rows import read_shard
from promptmill.pipeline.steps import Job as PromptJob
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.options import EngineName
from promptmill.schemas.request import RawRow, Reject
from promptmill.workers.batches import batches
from promptmill.workers.job import Job
from promptmill.workers.summary import counted

MOST_ITEMS: Final = 200
"""Media items that are enough."""
MOST_ROWS: Final = 20_000
"""Rows that are looked through for them."""
BATCH_ROWS: Final = 64

_ABOUT_MEDIA: Final = frozenset(
    {ErrorCode.MEDIA_UNSUPPORTED, ErrorCode.MEDIA_LIMIT, ErrorCode.PLACEHOLDER_IN_TEXT}
)
"""Why a row is refused for its media before they are read."""


@dataclass(frozen=True, slots=True)
class MediaLine:
    """One item; or a row whose media are refused all together."""

    source: str
    row_index: int
    kind: str
    """Its modality; "row"."""
    found: Measured | RowError


@dataclass(slots=True)
class MediaTable:
    """The items of a sample, and what was looked through for them."""

    lines: list[MediaLine] = field(default_factory=list)
    rows: int = 0
    rejected: int = 0
    """Prompts that are refused for other reasons than their media."""

    def text(self) -> Iterator[str]:
        """The table for a person, totals last."""
        yield f"{'kind':6} {'size':>22} {'grid':>11} {'tokens':>8}  row"
        for line in self.lines:
            found, place = line.found, f"{line.source} row {line.row_index}"
            if isinstance(found, RowError):
                yield f"{line.kind:6} {'-':>22} {'-':>11} {'-':>8}  {place}: {found}"
                continue
            grid = "x".join(map(str, found.grid or ())) or "-"
            yield f"{line.kind:6} {_size(found.info):>22} {grid:>11} {found.tokens:8,}  {place}"
        yield from self._totals()

    def _totals(self) -> Iterator[str]:
        tokens: dict[str, list[int]] = {}
        errors: Counter[ErrorCode] = Counter()
        for line in self.lines:
            if isinstance(line.found, RowError):
                errors[line.found.code] += 1
            else:
                tokens.setdefault(line.kind, []).append(line.found.tokens)
        for kind, counts in tokens.items():
            yield (
                f"{counted(len(counts), kind)}: {counted(sum(counts), 'token')}, "
                f"{min(counts):,} to {max(counts):,}, mean {sum(counts) / len(counts):,.1f}"
            )
        for code, count in errors.items():
            yield f"{count:,} {code}"
        yield f"{counted(self.rows, 'row')} looked through"
        if self.rejected:
            yield f"{counted(self.rejected, 'prompt')} rejected for other reasons than media"


def media_table(job: Job, *, most_items: int = MOST_ITEMS) -> MediaTable:
    """Measure the media of an input's first rows; nothing is tokenized, nothing written.

    Args:
        job: resolved; media are read from where it allows.
        most_items: the row that reaches this number is the last one.

    Raises:
        JobError: the model and the options do not go together.
    """
    options = job.options.model_copy(update={"engine": EngineName.TOKENIZERS})
    encoder = Encoder(job.bundle, options, job.clock)
    expander = load_expander(job.bundle, options, encoder.tokenizer.codec)
    media = MediaStep(expander, options, job.bundle.facts.truncation_side)
    table = MediaTable()
    rows = chain.from_iterable(read_shard(shard, options) for shard in job.plan.shards)
    for batch in batches(islice(rows, MOST_ROWS), most_rows=BATCH_ROWS):
        _measure(batch, encoder, media, table)
        if len(table.lines) >= most_items:
            break
    del table.lines[most_items:]
    return table


def _measure(
    batch: Sequence[RawRow], encoder: Encoder, media: MediaStep, table: MediaTable
) -> None:
    """Add the media of some rows to the table, in input order."""
    rejects: list[Reject] = []

    def refuse(job: PromptJob, error: RowError, stage: Stage) -> None:
        rejects.append(Reject(job.raw, error))

    jobs, _ = Intake(encoder.options, encoder.admit).take(batch, rejects)
    rendered = encoder.render(jobs, refuse)
    media.fetch(rendered)
    found: list[MediaLine] = []
    for item in rendered:
        raw = item.job.raw
        try:
            measured = media.measure(item)
        except RowError as error:
            refuse(item.job, error, Stage.EXPAND)
            continue
        for one, what in zip(item.rendered.media, measured, strict=True):
            found.append(MediaLine(raw.source, raw.row_index, one.modality, what))
    refused = [reject for reject in rejects if reject.error.code in _ABOUT_MEDIA]
    found += [MediaLine(r.row.source, r.row.row_index, "row", r.error) for r in refused]
    order = {(row.source, row.row_index): n for n, row in enumerate(batch)}
    table.lines += sorted(found, key=lambda line: order[line.source, line.row_index])
    table.rows += len(batch)
    table.rejected += len(rejects) - len(refused)


def _size(info: MediaInfo) -> str:
    """Pixels, or seconds and what else decides."""
    if isinstance(info, AudioInfo):
        return f"{info.samples / info.rate:.2f} s, {info.rate} Hz"
    pixels = f"{info.width}x{info.height}"
    return f"{pixels}, {info.frames} frames" if isinstance(info, VideoInfo) else pixels

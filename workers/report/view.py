"""What the page says, in words and numbers; the template only lays it out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from promptmill.pipeline.lengths import bounds
from promptmill.schemas.figures import CutExample
from promptmill.schemas.redact import redacted
from promptmill.schemas.run import RejectExample, Totals
from promptmill.workers.driver_lock import DriverState
from promptmill.workers.pace import Pace, pace_line
from promptmill.workers.report.cache import Side, notes, sides
from promptmill.workers.report.charts import (
    Bar,
    Chart,
    length_chart,
    share_bar,
    time_chart,
)
from promptmill.workers.report.command import rerun_command, where_to_run
from promptmill.workers.report.facts import facts, files, options
from promptmill.workers.report.figures import clock, compact, share, size
from promptmill.workers.report.gather import Activity, Ending, Gathered, Sums
from promptmill.workers.summary import counted

MOST_FILES = 50
STEPS = ("read", "parse", "render", "tokenize", "expand", "fit", "write")


@dataclass(frozen=True, slots=True)
class Tile:
    """A number to be seen at once."""

    name: str
    value: str
    more: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class CutRow:
    """A line of the table of cuts."""

    side: str
    rows: str
    share: str
    tokens: str
    most: str


@dataclass(frozen=True, slots=True)
class RejectRow:
    """A line of the table of rejects."""

    code: str
    rows: str
    share: str
    example: RejectExample | None


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a whole."""

    name: str
    value: str
    share: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Everything on the page."""

    folder: str
    fingerprint: str
    ending: Ending
    failure: str | None
    made: str
    model: str
    progress: int
    """Percent."""
    driver: DriverState | None
    driver_pace: str
    """Empty where it has not said any yet."""
    workers: str
    shards: str
    tiles: list[Tile]
    lengths: Chart | None
    length_rows: list[tuple[str, str, str, str]]
    cuts: list[CutRow]
    cut_examples: list[tuple[str, CutExample]]
    reuse: list[Side]
    reuse_notes: list[str]
    rejects: list[RejectRow]
    command: str | None
    command_place: str | None
    """Where it is to be run, unless anywhere."""
    modalities: list[Part]
    modality_bars: list[Bar]
    throughput: Chart | None
    pace: list[tuple[str, str]]
    stages: list[Part]
    stage_bars: list[Bar]
    facts: list[tuple[str, str]]
    options: list[tuple[str, str]]
    files: list[tuple[str, str, str]]
    more_files: int
    warnings: list[tuple[str, str]]
    notes: list[str]


def view(found: Gathered) -> View:
    """The page of a run."""
    record, totals, sums = found.record, found.ledger.totals, found.sums
    inputs = list(files(record.identity))
    pace = _driver_pace(found)
    return View(
        folder=str(found.folder.root.absolute()),
        fingerprint=record.fingerprint,
        ending=found.ending,
        failure=record.failure,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        model=str(record.options.get("model", "")),
        progress=_percent(found),
        driver=found.driver,
        driver_pace="" if pace is None else pace_line(pace),
        workers=counted(found.driver.workers if found.driver else 0, "worker"),
        shards=f"{len(found.ledger.committed):,} of {record.shards:,} shards committed",
        tiles=list(_tiles(found)),
        lengths=_length_chart(found),
        length_rows=list(_length_rows(sums)),
        cuts=[
            CutRow(
                side,
                f"{cut.rows:,}",
                share(cut.rows, totals.rows_ok),
                f"{cut.tokens:,}",
                f"{cut.most:,}",
            )
            for side, cut in sorted(sums.cuts.items())
        ],
        cut_examples=[
            (side, example) for side, cut in sorted(sums.cuts.items()) for example in cut.examples
        ],
        reuse=list(sides(sums)),
        reuse_notes=list(notes(sums)),
        rejects=_rejects(found),
        command=rerun_command(found.folder, record) if totals.rows_rejected else None,
        command_place=where_to_run(record),
        modalities=_parts(_modality_tokens(sums, totals)),
        modality_bars=share_bar(_modality_tokens(sums, totals)),
        throughput=time_chart([(one.started, one.finished, one.tokens) for one in sums.activities]),
        pace=list(_pace(found)),
        stages=_parts(_stages(totals), seconds=True),
        stage_bars=share_bar(_stages(totals)),
        facts=list(facts(found)),
        options=list(options(found)),
        files=inputs[:MOST_FILES],
        more_files=max(0, len(inputs) - MOST_FILES),
        warnings=[(kind, f"{count:,}") for kind, count in sums.warnings.most_common()],
        notes=[redacted(warning) for warning in record.warnings],
    )


def _percent(found: Gathered) -> int:
    if found.ending is Ending.FINISHED:
        return 100
    if (pace := _driver_pace(found)) is not None:
        return pace.percent
    return min(99, 100 * len(found.ledger.committed) // max(1, found.record.shards))


def _driver_pace(found: Gathered) -> Pace | None:
    return None if found.driver is None else found.driver.pace_now(found.ledger.totals.lines)


def _tiles(found: Gathered) -> Iterator[Tile]:
    totals, sums = found.ledger.totals, found.sums
    files = found.record.identity.get("input")
    of = f" of {counted(len(files), 'file')}" if isinstance(files, list) else ""
    yield Tile("prompts in", compact(totals.rows_in), counted(totals.lines, "line") + of)
    yield Tile("rows out", compact(totals.rows_ok), share(totals.rows_ok, totals.rows_in))
    rejected = totals.rows_rejected
    kind = "bad" if rejected else ""
    yield Tile("rejected", compact(rejected), share(rejected, totals.rows_in), kind)
    cut = totals.rows_truncated
    yield Tile("cut", compact(cut), f"{share(cut, totals.rows_ok)} of rows", "cut" if cut else "")
    mean = totals.tokens / totals.rows_ok if totals.rows_ok else 0
    yield Tile("tokens stored", compact(totals.tokens), f"{mean:,.0f} a row")
    for modality, count in totals.media.items():
        yield Tile(f"{modality} items", compact(count), f"{sums.media_tokens[modality]:,} tokens")
    record = found.record.totals
    for name, value in (
        ("doubled BOS", totals.double_bos_rows),
        ("ids in two shards", record.duplicate_ids if record is not None else 0),
        ("blank lines", totals.blank_lines),
    ):
        if value:
            yield Tile(name, compact(value))


def _length_chart(found: Gathered) -> Chart | None:
    options, sums = found.record.options, found.sums
    limits = {
        name: value
        for name in ("max_model_len", "truncate_prompt_tokens")
        if isinstance(value := options.get(name), int) and value > 0
    }
    series = {"before": sums.before, "after": sums.after, "refused": sums.refused}
    return length_chart(series, limits)


def _length_rows(sums: Sums) -> Iterator[tuple[str, str, str, str]]:
    """The histogram as a table, by doublings."""
    table: dict[int, list[int]] = {}
    for column, counts in enumerate((sums.before, sums.after, sums.refused)):
        for number, count in counts.items():
            line = table.setdefault(bounds(number)[0].bit_length(), [0, 0, 0])
            line[column] += count
    for bits, line in sorted(table.items()):
        first, last = (1 << bits) >> 1, max(0, (1 << bits) - 1)
        name = f"{first:,} to {last:,}" if last > first else f"{first:,}"
        yield name, f"{line[0]:,}", f"{line[1]:,}", f"{line[2]:,}"


def _rejects(found: Gathered) -> list[RejectRow]:
    totals, examples = found.ledger.totals, found.ledger.examples
    return [
        RejectRow(code, f"{count:,}", share(count, totals.rows_in), examples.get(code))
        for code, count in sorted(totals.rejects.items(), key=lambda item: -item[1])
    ]


def _modality_tokens(sums: Sums, totals: Totals) -> dict[str, float]:
    media = {name: float(count) for name, count in sorted(sums.media_tokens.items())}
    return {"text": max(0.0, totals.tokens - sum(media.values())), **media}


def _stages(totals: Totals) -> dict[str, float]:
    """Seconds by step, in the order of a row's way."""
    seconds = totals.seconds
    return {step: seconds[step] for step in sorted(seconds, key=_place)}


def _place(step: str) -> int:
    return STEPS.index(step) if step in STEPS else len(STEPS)


def _parts(parts: Mapping[str, float], *, seconds: bool = False) -> list[Part]:
    whole = sum(parts.values())
    return [
        Part(name, clock(part) if seconds else f"{part:,.0f}", share(part, whole))
        for name, part in parts.items()
    ]


def _pace(found: Gathered) -> Iterator[tuple[str, str]]:
    totals, sums = found.ledger.totals, found.sums
    seconds = working_seconds(sums.activities)
    if seconds > 0:
        tokens = sum(one.tokens for one in sums.activities)
        rows = sum(one.rows for one in sums.activities)
        yield "time with work", clock(seconds)
        yield "prompts a second", compact(rows / seconds)
        yield "tokens a second", compact(tokens / seconds)
    if totals.cpu_seconds:
        yield "processor time", clock(totals.cpu_seconds)
        yield "tokens a processor second", compact(totals.tokens / totals.cpu_seconds)
    yield "processes that did work", f"{len(sums.workers):,}"
    parts = counted(len(found.ledger.committed), "part")
    yield "read, written", f"{size(totals.bytes_read)}, {size(totals.bytes_written)} in {parts}"
    for name, used in sorted(sums.engines.items()):
        checked = f", {used.rows_checked:,} rows compared with the reference and equal"
        redone = f", {used.rows_redone:,} rows left to the reference"
        said = (checked if used.rows_checked else "") + (redone if used.rows_redone else "")
        yield "tokenized by", name + said


def working_seconds(activities: list[Activity]) -> float:
    """Seconds in which at least one shard was worked on: pauses between starts do not count."""
    seconds, end = 0.0, float("-inf")
    for one in sorted(activities, key=lambda one: one.started):
        seconds += max(0.0, one.finished - max(end, one.started))
        end = max(end, one.finished)
    return seconds

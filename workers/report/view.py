"""What the page says, in words and numbers; the template only lays it out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from promptmill.pipeline.lengths import bounds
from promptmill.pipeline.reuse import Reuse
from promptmill.schemas.figures import CutExample
from promptmill.schemas.redact import redacted
from promptmill.schemas.run import RejectExample, Totals
from promptmill.workers.driver_lock import DriverState
from promptmill.workers.report.charts import (
    Bar,
    Chart,
    clock,
    compact,
    length_chart,
    share_bar,
    time_chart,
)
from promptmill.workers.report.command import option_arguments, rerun_command
from promptmill.workers.report.gather import Activity, Ending, Gathered, Sums
from promptmill.workers.summary import counted

MOST_FILES = 50
STEPS = ("read", "parse", "render", "tokenize", "expand", "fit", "write")
LONGEST_VALUE = 300


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
class Side:
    """What a prefix cache gives under one way of cutting."""

    name: str
    share: float
    text: str


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
    files = list(_files(record.identity))
    return View(
        folder=str(found.folder.root.absolute()),
        fingerprint=record.fingerprint,
        ending=found.ending,
        failure=record.failure,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        model=str(record.options.get("model", "")),
        progress=_percent(found),
        driver=found.driver,
        workers=counted(found.driver.workers if found.driver else 0, "worker"),
        shards=f"{len(found.ledger.committed):,} of {record.shards:,} shards committed",
        tiles=list(_tiles(found)),
        lengths=_length_chart(found),
        length_rows=list(_length_rows(sums)),
        cuts=[
            CutRow(
                side,
                f"{cut.rows:,}",
                _share(cut.rows, totals.rows_ok),
                f"{cut.tokens:,}",
                f"{cut.most:,}",
            )
            for side, cut in sorted(sums.cuts.items())
        ],
        cut_examples=[
            (side, example) for side, cut in sorted(sums.cuts.items()) for example in cut.examples
        ],
        reuse=list(_sides(sums)),
        reuse_notes=list(_reuse_notes(sums, totals)),
        rejects=_rejects(found),
        command=rerun_command(found.folder, record) if totals.rows_rejected else None,
        modalities=_parts(_modality_tokens(sums, totals)),
        modality_bars=share_bar(_modality_tokens(sums, totals)),
        throughput=time_chart([(one.started, one.finished, one.tokens) for one in sums.activities]),
        pace=list(_pace(found)),
        stages=_parts(_stages(totals), seconds=True),
        stage_bars=share_bar(_stages(totals)),
        facts=list(_facts(found)),
        options=list(_options(found)),
        files=files[:MOST_FILES],
        more_files=max(0, len(files) - MOST_FILES),
        warnings=[(kind, f"{count:,}") for kind, count in sums.warnings.most_common()],
        notes=[redacted(warning) for warning in record.warnings],
    )


def _percent(found: Gathered) -> int:
    if found.ending is Ending.FINISHED:
        return 100
    if found.driver is not None and found.driver.pace is not None:
        return found.driver.pace.percent
    return min(99, 100 * len(found.ledger.committed) // max(1, found.record.shards))


def _tiles(found: Gathered) -> Iterator[Tile]:
    totals, sums = found.ledger.totals, found.sums
    files = found.record.identity.get("input")
    of = f" of {counted(len(files), 'file')}" if isinstance(files, list) else ""
    yield Tile("prompts in", compact(totals.rows_in), counted(totals.lines, "line") + of)
    yield Tile("rows out", compact(totals.rows_ok), _share(totals.rows_ok, totals.rows_in))
    rejected = totals.rows_rejected
    kind = "bad" if rejected else ""
    yield Tile("rejected", compact(rejected), _share(rejected, totals.rows_in), kind)
    cut = totals.rows_truncated
    yield Tile("cut", compact(cut), f"{_share(cut, totals.rows_ok)} of rows", "cut" if cut else "")
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


def _sides(sums: Sums) -> Iterator[Side]:
    if not sums.as_stored.rows:
        return
    stored, other = sums.as_stored.reuse(), sums.other_way.reuse()
    if not sums.cut.rows:
        yield _side("As stored; no row was cut", stored)
        return
    left, right = (sums.cuts.get(name) for name in ("left", "right"))
    taken = "left" if right is None else "right" if left is None else "left or right"
    instead = {"left": "right", "right": "left"}.get(taken, "other side")
    yield _side(f"All rows, cut as they are: {taken}", stored)
    yield _side(f"All rows, had the {instead} been cut", other)
    yield _side(f"Cut rows alone: {taken}", sums.cut.reuse())
    yield _side(f"Cut rows alone, had the {instead} been cut", sums.other.reuse())


def _side(name: str, reuse: Reuse) -> Side:
    share = max(0.0, reuse.share)
    error = 2 * reuse.share_error
    about = f" ± {100 * error:.1f}" if error >= 0.0005 else ""
    return Side(name, share, f"{100 * share:.1f}{about} %")


def _reuse_notes(sums: Sums, totals: Totals) -> Iterator[str]:
    if totals.rows_ok and not sums.as_stored.rows:
        yield "The shards of this run were written by a release that did not count this."
        return
    reuse = sums.as_stored.reuse()
    yield (
        f"Share of {reuse.tokens:,} prompt ids that need no computing again in a prefix cache "
        "without end, in blocks of 16 ids from a prompt's start, as vLLM counts them: media and "
        "cache salts tell blocks apart, and a prompt's last id is always computed. A real cache "
        "evicts, so it gives less."
    )
    if reuse.error:
        yield (
            f"All {sums.as_stored.rows:,} rows and their {reuse.blocks:,} blocks are counted; how "
            "many of the blocks differ is estimated from the smallest of their hashes (± is two "
            "standard deviations)."
        )
    else:
        yield f"Counted exactly, over all {reuse.blocks:,} blocks of {sums.as_stored.rows:,} rows."
    if sums.not_compared:
        yield (
            f"{sums.not_compared:,} cut rows are left out: what the other side would have kept is "
            "not known (the text was cut before it was tokenized, or media would have to be "
            "expanded anew)."
        )
    if sums.cut.rows:
        yield (
            "The other side keeps as many ids of the same prompt. Whether such a cut would split "
            "a media item is not looked at."
        )


def _rejects(found: Gathered) -> list[RejectRow]:
    totals, examples = found.ledger.totals, found.ledger.examples
    return [
        RejectRow(code, f"{count:,}", _share(count, totals.rows_in), examples.get(code))
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
        Part(name, clock(part) if seconds else f"{part:,.0f}", _share(part, whole))
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
    yield "workers", f"{len(sums.workers):,}"
    parts = counted(len(found.ledger.committed), "part")
    yield "read, written", f"{_bytes(totals.bytes_read)}, {_bytes(totals.bytes_written)} in {parts}"
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


def _facts(found: Gathered) -> Iterator[tuple[str, str]]:
    record, identity = found.record, found.record.identity
    yield "job fingerprint", record.fingerprint
    yield "rules", str(identity.get("rules"))
    versions = identity.get("versions")
    if isinstance(versions, dict):
        yield from ((f"version of {name}", str(value)) for name, value in versions.items())
    for name in ("tokenizer", "chat template", "model config"):
        yield f"{name} sha256", str(identity.get(name))
    yield "time told to templates", record.clock + ("" if identity.get("clock") else " (not asked)")
    yield "first start", record.started
    if record.finished:
        yield "finished", record.finished
    if record.totals is not None and record.totals.rows_resumed:
        yield "done by earlier starts", f"{record.totals.rows_resumed:,} prompts"


def _options(found: Gathered) -> Iterator[tuple[str, str]]:
    """Options that have not their default, as on a command line."""
    arguments = list(option_arguments(dict(found.record.options)))  # type: ignore[arg-type]
    position = 0
    while position < len(arguments):
        name, value = arguments[position], ""
        position += 1
        if position < len(arguments) and not arguments[position].startswith("--"):
            value = redacted(arguments[position])
            position += 1
        shown = value if len(value) <= LONGEST_VALUE else value[: LONGEST_VALUE - 3] + "..."
        yield name, shown


def _files(identity: Mapping[str, object]) -> Iterator[tuple[str, str, str]]:
    files = identity.get("input")
    for file in files if isinstance(files, list) else []:
        if isinstance(file, dict):
            name, size = file.get("name"), file.get("size")
            shown = f"{size:,}" if isinstance(size, int) else json.dumps(size)
            yield redacted(str(name)), shown, str(file.get("sha256"))


def _bytes(number: int) -> str:
    shown = compact(number)
    return f"{shown}B" if shown[-1].isalpha() else f"{shown} B"


def _share(part: float, whole: float) -> str:
    if not whole:
        return "0 %"
    share = 100 * part / whole
    return f"{share:.1f} %" if share == 0 or share >= 0.1 else "< 0.1 %"

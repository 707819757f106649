"""What a finished run tells a person."""

from __future__ import annotations

from collections.abc import Iterator

from promptmill.schemas.run import RejectExample, RunTotals
from promptmill.workers.ledger import Ledger
from promptmill.workers.output_folder import OutputFolder

MESSAGE_WIDTH = 400
"""Characters: messages end with the way out, which must not be cut off."""


def counted(count: int, noun: str) -> str:
    """`1 shard`, `1,200 shards`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def summary(totals: RunTotals, ledger: Ledger, folder: OutputFolder) -> Iterator[str]:
    """Lines: totals, rejects by kind with a place each, where the output lies, what to do next."""
    prompts, rows = counted(totals.rows_in, "prompt"), counted(totals.rows_ok, "row")
    yield f"{prompts} in, {rows} out, {counted(totals.tokens, 'token')}"
    if totals.rejects and not totals.rows_ok:
        most = max(totals.rejects, key=totals.rejects.__getitem__)
        yield (
            f"warning: everything was rejected ({prompts}), most often as {most}; --max-rejects 0 "
            "makes such a run end with exit code 3"
        )
    if ledger.unmarked:
        yield (
            f"warning: {counted(ledger.unmarked, 'row')} with a mask of zeros only, nothing to "
            "learn from: the column warnings says which"
        )
    yield from _noteworthy(totals)
    if totals.rows_rejected:
        yield f"{totals.rows_rejected:,} rejected:"
        for code, count in sorted(totals.rejects.items(), key=lambda item: -item[1]):
            yield f"  {count:,} {code}{_where(ledger.examples.get(code))}"
    yield f"output: {folder.root}"
    yield f"report: {folder.report}"
    if totals.rows_rejected:
        rejects = folder.rejects(0).parent
        yield (
            f"rejects: {rejects}; to run them again: promptmill run -i '{rejects}/*.jsonl' -o NEW "
            "... (the report has the whole command)"
        )


def _noteworthy(totals: RunTotals) -> Iterator[str]:
    counts = {
        "truncated": totals.rows_truncated,
        "with a doubled BOS": totals.double_bos_rows,
        "with an id that another shard has, too": totals.duplicate_ids,
        "done by earlier starts of this run": totals.rows_resumed,
    }
    for what, count in counts.items():
        if count:
            yield f"  {count:,} {what}"
    for modality, count in totals.media.items():
        yield f"  {counted(count, 'media item')}: {modality}"
    if totals.blank_lines:
        yield f"  {counted(totals.blank_lines, 'blank line')} skipped"


def _where(example: RejectExample | None) -> str:
    if example is None:
        return ""
    message = " ".join(example.message.split())
    short = message if len(message) <= MESSAGE_WIDTH else message[: MESSAGE_WIDTH - 3] + "..."
    # A file's name may hold line breaks and control characters of terminals.
    source = example.source if example.source.isprintable() else repr(example.source)
    return f", first in {source} row {example.row_index}: {short}"

"""What a finished run tells a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from promptmill.schemas.run import RejectExample, RunTotals
from promptmill.workers.output_folder import OutputFolder

MESSAGE_WIDTH = 160


def summary(
    totals: RunTotals, examples: Mapping[str, RejectExample], folder: OutputFolder
) -> Iterator[str]:
    """Lines: totals, rejects by kind with a place each, where the output lies, what to do next."""
    yield f"{totals.rows_in:,} prompts in, {totals.rows_ok:,} rows out, {totals.tokens:,} tokens"
    yield from _noteworthy(totals)
    if totals.rows_rejected:
        yield f"{totals.rows_rejected:,} rejected:"
        for code, count in sorted(totals.rejects.items(), key=lambda item: -item[1]):
            yield f"  {count:,} {code}{_where(examples.get(code))}"
    yield f"output: {folder.root}"
    if totals.rows_rejected:
        rejects = folder.rejects(0).parent
        yield f"rejects: {rejects}; to run them again: promptmill run -i '{rejects}/*.jsonl' ..."


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
        yield f"  {count:,} media items: {modality}"
    if totals.blank_lines:
        yield f"  {totals.blank_lines:,} blank lines skipped"


def _where(example: RejectExample | None) -> str:
    if example is None:
        return ""
    message = " ".join(example.message.split())
    short = message if len(message) <= MESSAGE_WIDTH else message[: MESSAGE_WIDTH - 3] + "..."
    return f", first in {example.source} row {example.row_index}: {short}"

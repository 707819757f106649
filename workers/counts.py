"""What a batch adds to the totals and to the examples of its shard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from promptmill.schemas.request import DOUBLE_BOS, EncodedBatch, Reject
from promptmill.schemas.run import RejectExample, Totals
from promptmill.workers.figures import start_of


def batch_totals(lines: int, batch: EncodedBatch) -> Totals:
    """The counts of one batch that was made of `lines` lines or rows."""
    rows = batch.rows
    spans = Counter(span.modality.value for row in rows for span in row.spans)
    codes = Counter(reject.error.code.value for reject in batch.rejects)
    return Totals(
        lines=lines,
        blank_lines=batch.blank_lines,
        rows_in=len(rows) + len(batch.rejects),
        rows_ok=len(rows),
        rows_rejected=len(batch.rejects),
        rejects=dict(codes),
        rows_truncated=sum(bool(row.truncated_left or row.truncated_right) for row in rows),
        double_bos_rows=sum(
            any(warning.startswith(DOUBLE_BOS) for warning in row.warnings)
            for row in rows
            if row.warnings
        ),
        tokens=sum(len(row.ids) for row in rows),
        media=dict(spans),
    )


def add_examples(
    examples: dict[str, RejectExample], rejects: Sequence[Reject], *, content: bool
) -> None:
    """Keep the first reject of every code; of its row nothing, unless `content` is wanted."""
    for reject in rejects:
        row, error = reject.row, reject.error
        if error.code.value not in examples:
            shown = start_of(row) if content else None
            examples[error.code.value] = RejectExample(
                row.source, row.row_index, error.message, shown
            )

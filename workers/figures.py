"""What the rows of a shard add to the run report; see `schemas/figures.py`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from promptmill.pipeline.lengths import buckets
from promptmill.pipeline.reuse import CACHE_SALT, BlockCounter, hashes_kept, marks_of
from promptmill.schemas.errors import ErrorCode
from promptmill.schemas.figures import MOST_EXAMPLES, CutExample, Cuts, Figures
from promptmill.schemas.request import EncodedBatch, RawRow, Reject, TokenRow

CONTENT_CHARS = 120
"""Characters shown on each side of a cut, and twice as many of a reject."""
MOST_KINDS = 32
"""Kinds of warnings that a shard tells apart."""
OTHERS = "others"
LONGEST_KIND = 100
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
COUNTED = re.compile(r"^\d+ (control token)s?\b")
"""One or several, it is one kind of warning."""
TOO_LONG = {ErrorCode.PROMPT_TOO_LONG, ErrorCode.DROPPED_OVERLONG}


class FigureCounter:
    """Counts the figures of one shard, batch by batch.

    Args:
        shards: of the run: with many, each keeps less.
        content: whether examples show some text.
    """

    def __init__(self, shards: int, *, content: bool) -> None:
        self._content = content
        self._before, self._after = Counter[int](), Counter[int]()
        self._refused = Counter[int]()
        self._longest = 0
        self._cuts: dict[str, Cuts] = {}
        self._media_tokens, self._warnings = Counter[str](), Counter[str]()
        kept = hashes_kept(shards)
        self._whole, self._cut = BlockCounter(kept), BlockCounter(kept)
        self._other = BlockCounter(kept)
        self._not_compared = 0

    def add(self, batch: EncodedBatch) -> None:
        """Count a batch."""
        rows = batch.rows
        originals = [row.original_num_tokens for row in rows]
        self._before.update(buckets(originals))
        self._after.update(buckets([len(row.ids) for row in rows]))
        self._refused.update(buckets(list(_refused_lengths(batch.rejects))))
        self._longest = max([self._longest, *originals])
        for row in rows:
            for span in row.spans:
                self._media_tokens[span.modality.value] += span.length
            if row.warnings:
                for kind in {kind_of(warning) for warning in row.warnings}:
                    known = kind in self._warnings or len(self._warnings) < MOST_KINDS
                    self._warnings[kind if known else OTHERS] += 1
        cut = [row for row in rows if row.truncated_left or row.truncated_right]
        for row in cut:
            self._add_cut(row)
        self._add_blocks(rows, cut)

    def _add_cut(self, row: TokenRow) -> None:
        lost = row.truncated_left + row.truncated_right
        side = "both" if row.truncated_left and row.truncated_right else "left"
        side = side if row.truncated_left else "right"
        before = self._cuts.get(side, Cuts())
        named = len(before.examples) < MOST_EXAMPLES
        examples = (_cut_example(row, content=self._content),) if named else ()
        self._cuts[side] = before + Cuts(rows=1, tokens=lost, most=lost, examples=examples)

    def _add_blocks(self, rows: Sequence[TokenRow], cut: Sequence[TokenRow]) -> None:
        compared = [row for row in cut if row.other_side is not None]
        self._not_compared += len(cut) - len(compared)
        if cut:
            rows = [row for row in rows if not (row.truncated_left or row.truncated_right)]
        _add_rows(self._whole, rows)
        _add_rows(self._cut, compared)
        self._other.add([row.other_side for row in compared if row.other_side is not None])

    def figures(self) -> Figures:
        """What was counted."""
        return Figures(
            before=dict(self._before),
            after=dict(self._after),
            refused=dict(self._refused),
            longest=self._longest,
            cuts=self._cuts,
            media_tokens=dict(self._media_tokens),
            warnings=dict(self._warnings),
            whole_blocks=self._whole.blocks(),
            cut_blocks=self._cut.blocks(),
            other_blocks=self._other.blocks(),
            cuts_not_compared=self._not_compared,
        )


def _add_rows(counter: BlockCounter, rows: Sequence[TokenRow]) -> None:
    marks = {
        number: marks_of(row)
        for number, row in enumerate(rows)
        if row.spans or CACHE_SALT in row.request.passthrough
    }
    counter.add([row.ids for row in rows], marks)


def kind_of(warning: str) -> str:
    """What a warning has in common with others of its kind: no numbers, nothing of the row.

    >>> kind_of("1 control token in content")
    'control tokens in content'
    """
    word = warning.partition(":")[0]
    named = word if word.isidentifier() else QUOTED.sub("...", warning)
    return re.sub(r"\d+", "N", COUNTED.sub(r"\1s", named))[:LONGEST_KIND]


def start_of(row: RawRow) -> str:
    """How a row begins, as text."""
    most = 2 * CONTENT_CHARS
    if row.data is None or isinstance(row.data, bytes):
        line = row.head if row.data is None else row.data
        text = line[: 4 * most].decode("utf-8", "replace")
    else:
        text = _unicode(str(row.data))
    return text if len(text) <= most else text[: most - 3] + "..."


def _unicode(text: str) -> str:
    """`text` without lone surrogates, which a receipt cannot carry."""
    return text.encode("utf-8", "replace").decode()


def _refused_lengths(rejects: Sequence[Reject]) -> Iterator[int]:
    """Ids of the prompts that were refused for a known number of them."""
    for reject in rejects:
        error = reject.error
        if error.code in TOO_LONG and error.parameter == "input_tokens":
            yield int(error.value or 0)


def _cut_example(row: TokenRow, *, content: bool) -> CutExample:
    place = row.request.place
    return CutExample(
        custom_id=_unicode(row.request.custom_id),
        source=place.source,
        row_index=place.row_index,
        original_num_tokens=row.original_num_tokens,
        num_tokens=len(row.ids),
        content=_around_the_cut(row) if content else None,
    )


def _around_the_cut(row: TokenRow) -> str | None:
    """The text on both sides of the place where it was cut; None where that is not known."""
    if row.text is None or row.offsets is None or not len(row.offsets):
        return None
    starts, stops = row.offsets[:, 0], row.offsets[:, 1]
    real = stops > starts
    if not real.any():
        return None
    place = int(starts[real].min() if row.truncated_left else stops[real].max())
    before, after = row.text[max(0, place - CONTENT_CHARS) : place], row.text[place:]
    return _unicode(f"{before} ✂ {after[:CONTENT_CHARS]}")

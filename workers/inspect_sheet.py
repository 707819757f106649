"""What a page and a terminal both say of an inspected prompt."""

from __future__ import annotations

from collections.abc import Iterator

from promptmill.pipeline.explain import BudgetSheet, Explanation, SegmentKind
from promptmill.schemas.media import MediaSpan
from promptmill.workers.visible import visible


def quoted(piece: str) -> str:
    """A piece between quotes, on one line."""
    return "'" + visible(piece).replace("\n", "\\n").replace("\t", "\\t") + "'"


def text_name(one: Explanation) -> str:
    """What the text of a prompt is."""
    return "Text" if one.text is not None else "Text (decoded from the ids)"


def sheet_rows(sheet: BudgetSheet) -> Iterator[tuple[str, str]]:
    """The budget sheet: names and values."""
    asked = sheet.truncate_prompt_tokens
    yield "context length", f"{sheet.max_model_len:,}"
    if sheet.num_chars is None:
        yield "characters", "no text, ids only"
    else:
        yield "characters", f"{sheet.num_chars:,}"
        yield "character gate", f"{sheet.max_chars:,}"
    yield "ids rendered", _number(sheet.rendered_tokens)
    yield "ids expanded", _number(sheet.expanded_tokens)
    yield "ids kept", _number(sheet.kept_tokens)
    yield "ids cut", f"{sheet.truncated_left:,} left, {sheet.truncated_right:,} right"
    if asked is None:
        yield "truncation", "none"
    else:
        keeps = f"keeps {sheet.resolved_truncation:,}, " if asked < 0 else ""
        yield "truncation", f"{asked:,}, {keeps}side {sheet.truncation_side}"
    yield "output asked for", _number(sheet.max_output_tokens)
    yield "output left", _number(sheet.max_tokens)


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def facts(one: Explanation) -> Iterator[str]:
    """Which rule cut what, which characters that are, and the media; a line each."""
    yield from one.rules
    for segment in one.segments:
        if segment.kind is SegmentKind.CUT:
            yield f"Cut: characters {segment.start}..{segment.stop} of the text."
    if one.row is not None:
        for span, resized in zip(one.row.spans, one.sizes, strict=True):
            yield _span(span, resized)


def _span(span: MediaSpan, resized: tuple[int, int] | None) -> str:
    grid = f", grid {'x'.join(map(str, span.grid))}" if span.grid else ""
    size = "" if resized is None else f", resized to {resized[0]}x{resized[1]}"
    return (
        f"{span.modality} {span.index}: ids {span.offset}..{span.offset + span.length}"
        f" ({span.length}){grid}{size}, {span.hash[:16]}"
    )

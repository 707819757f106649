"""What a page and a terminal both say of an inspected prompt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from promptmill.pipeline.explain import BudgetSheet, Explanation

_BIDI: Final = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F)
_SHOWN: Final = {
    **{n: chr(0x2400 + n) for n in range(0x20) if n not in (0x09, 0x0A)},
    0x7F: "\u2421",
    **{n: f"\\x{n:02x}" for n in range(0x80, 0xA0)},
    **{n: f"\\u{n:04x}" for n in _BIDI},
}
"""Characters that do something instead of being seen: a prompt must not steer a terminal, nor
turn the reading of what is beside it."""


def visible(text: str) -> str:
    """Text with every character that would act made one that is seen."""
    return text.translate(_SHOWN)


def quoted(piece: str) -> str:
    """A piece between quotes, on one line."""
    return "'" + visible(piece).replace("\n", "\\n").replace("\t", "\\t") + "'"


def sheet_rows(sheet: BudgetSheet) -> Iterator[tuple[str, str]]:
    """The budget sheet: names and values."""
    asked = sheet.truncate_prompt_tokens
    yield "context length", f"{sheet.max_model_len:,}"
    if sheet.num_chars is None:
        yield "characters", "came as ids"
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


def span_lines(one: Explanation) -> Iterator[str]:
    """The media of a prompt, a line each."""
    if one.row is None:
        return
    for span, resized in zip(one.row.spans, one.sizes, strict=True):
        grid = f", grid {'x'.join(map(str, span.grid))}" if span.grid else ""
        size = "" if resized is None else f", resized to {resized[0]}x{resized[1]}"
        yield (
            f"{span.modality} {span.index}: ids {span.offset}..{span.offset + span.length}"
            f" ({span.length}){grid}{size}, {span.hash[:16]}"
        )

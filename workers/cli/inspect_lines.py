"""An inspected row on a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, TypedDict

import typer

from promptmill.pipeline.explain import Explanation, Segment, TokenView
from promptmill.workers.inspect_row import Inspected
from promptmill.workers.inspect_sheet import facts, quoted, sheet_rows, text_name
from promptmill.workers.visible import visible

_FEW: Final = 6
"""Neighbours with the same id that are all shown; of more, such as a picture's, the ends are."""


class _Style(TypedDict, total=False):
    fg: str
    dim: bool
    underline: bool
    strikethrough: bool


STYLES: Final[dict[str, _Style]] = {
    "text": {},
    "control": {"fg": "magenta"},
    "media": {"fg": "cyan"},
    "padding": {"dim": True},
    "cut": {"fg": "red", "strikethrough": True},
    "dropped": {"fg": "yellow", "strikethrough": True},
}
_IN_MASK: Final[_Style] = {"underline": True}


def lines(inspected: Inspected) -> Iterator[str]:
    """Everything, a prompt after the other; colours are left to the terminal."""
    for one in inspected.prompts:
        yield typer.style(
            f"{visible(one.custom_id)} (prompt {one.prompt_index}, {visible(inspected.place)})",
            bold=True,
        )
        yield from _prompt(one)
        yield ""
    yield from (typer.style(f"note: {visible(note)}", fg="yellow") for note in inspected.notes)


def _prompt(one: Explanation) -> Iterator[str]:
    if one.error is not None:
        yield typer.style(f"rejected: {one.error.code}: {visible(one.error.message)}", fg="red")
    if one.budget is None:
        return
    yield from ("", _legend(one), _text(one), "")
    yield from (f"{name:20} {value}" for name, value in sheet_rows(one.budget))
    yield ""
    yield from facts(one)
    if one.row is None:
        return
    warnings = one.row.warnings
    yield from (typer.style(f"warning: {visible(text)}", fg="yellow") for text in warnings)
    yield f"request: {visible(json.dumps(one.row.request.passthrough, ensure_ascii=False))}"
    yield from ("", f"{'index':>6} {'id':>8} {'offsets':>13}  kind     piece")
    yield from _tokens(one.tokens)


def _legend(one: Explanation) -> str:
    kinds = dict.fromkeys(s.kind.value for s in one.segments if s.kind.value != "text")
    names = [typer.style(kind, **STYLES[kind]) for kind in kinds]
    if any(segment.in_mask for segment in one.segments):
        names.append(typer.style("in the mask", **_IN_MASK))
    return f"{text_name(one)}; {', '.join(names)}:" if names else f"{text_name(one)}:"


def _text(one: Explanation) -> str:
    text = one.text
    if text is None:
        return "".join(_styled(token.piece, STYLES[token.kind.value]) for token in one.tokens)
    if not one.segments:
        return visible(text)
    return "".join(_segment(text, segment) for segment in one.segments)


def _segment(text: str, segment: Segment) -> str:
    style: _Style = {**STYLES[segment.kind.value], **(_IN_MASK if segment.in_mask else {})}
    return _styled(text[segment.start : segment.stop], style)


def _styled(text: str, style: _Style) -> str:
    return typer.style(visible(text), **style) if style else visible(text)


def _tokens(tokens: Sequence[TokenView]) -> Iterator[str]:
    for _, group in groupby(tokens, key=lambda token: (token.id, token.kind)):
        same = list(group)
        if len(same) <= _FEW:
            yield from map(_token, same)
            continue
        yield _token(same[0])
        yield f"{'...':>6} {'...':>8} {'...':>13}  {len(same) - 2:,} more of them"
        yield _token(same[-1])


def _token(token: TokenView) -> str:
    where = "-" if token.offsets is None else f"{token.offsets[0]}..{token.offsets[1]}"
    mark = " *" if token.in_mask else ""
    style = STYLES[token.kind.value]
    piece = quoted(token.piece)
    return (
        f"{token.index:6} {token.id:8} {where:>13}  {token.kind:8} "
        f"{typer.style(piece, **style) if style else piece}{mark}"
    )

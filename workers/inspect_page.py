"""An inspected row as one page: no network, no script but its own, whatever the row holds.

Every text of the row is escaped, and the page's policy lets run only the script whose hash it
names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from typing import Final, TypeVar

from promptmill.pipeline.explain import Explanation, Segment, TokenKind, TokenView
from promptmill.static import policy_hash, read_static
from promptmill.workers.inspect_row import Inspected
from promptmill.workers.inspect_sheet import facts, quoted, sheet_rows, text_name
from promptmill.workers.visible import visible

T = TypeVar("T")

MOST_SHOWN: Final = 20_000
"""Ids, and pieces of text, that a page has; of more, both ends are shown."""

_LEGEND: Final = {
    "control": "control token",
    "media": "media",
    "cut": "cut",
    "dropped": "of no id",
    "mask": "in the assistant mask",
}


def page(inspected: Inspected) -> str:
    """The whole page."""
    style, script = read_static("inspect/page.css"), read_static("inspect/page.js")
    policy = (
        f"default-src 'none'; style-src '{policy_hash(style)}'; "
        f"script-src '{policy_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{_text(_title(inspected))}</title>",
            f"<style>{style}</style>\n</head>\n<body>",
            f"<header><h1>{_text(_title(inspected))}</h1>",
            f'<p class="quiet">{_text(inspected.place)}</p></header>',
            *(f'<p class="note">{_text(note)}</p>' for note in inspected.notes),
            "<main>",
            *(line for one in inspected.prompts for line in _section(one, _name(one, inspected))),
            f'</main>\n<p id="told" role="status"></p>\n<script>{script}</script>',
            "</body>\n</html>\n",
        ]
    )


def _text(text: str) -> str:
    return escape(visible(text))


def _title(inspected: Inspected) -> str:
    names = [one.custom_id for one in inspected.prompts]
    return " to ".join(dict.fromkeys((names[0], names[-1])))


def _name(one: Explanation, inspected: Inspected) -> str:
    """Of a prompt, where the row has several."""
    return f"Prompt {one.prompt_index}: {one.custom_id}" if len(inspected.prompts) > 1 else ""


def _section(one: Explanation, name: str) -> Iterator[str]:
    yield "<section>"
    if name:
        yield f"<h2>{_text(name)}</h2>"
    if one.error is not None:
        yield (
            f'<p class="error" role="alert"><strong>Rejected: {_text(one.error.code)}</strong><br>'
            f"{_text(one.error.message)}</p>"
        )
    warnings = one.row.warnings if one.row is not None else ()
    yield from (f'<p class="note">{_text(warning)}</p>' for warning in warnings)
    if one.budget is not None:
        yield '<dl class="numbers">'
        for name, value in sheet_rows(one.budget):
            yield f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>"
        yield "</dl>"
        yield "<ul>" + "".join(f"<li>{_text(fact)}</li>" for fact in facts(one)) + "</ul>"
        yield from _panels(one)
    if one.row is not None:
        request = json.dumps(one.row.request.passthrough, ensure_ascii=False, indent=1)
        yield "<details><summary>What else the row asks for</summary>"
        yield f'<pre class="request" tabindex="0">{_text(request)}</pre></details>'
    yield "</section>"


def _panels(one: Explanation) -> Iterator[str]:
    yield from _legend(one)
    yield f'<div class="panels{"" if one.tokens else " alone"}"><div><h3>{text_name(one)}</h3>'
    yield '<div class="scroll" tabindex="0" role="group" aria-label="Text">'
    yield f'<pre class="prompt">{"".join(_marked(one))}</pre></div></div>'
    if one.tokens:
        yield from _table(one.tokens)
    yield "</div>"


def _table(tokens: Sequence[TokenView]) -> Iterator[str]:
    yield '<div><h3>Ids</h3><div class="scroll" tabindex="0" role="group" aria-label="Ids"><table>'
    head = (("number", "index"), ("number", "id"), ("", "offsets"), ("", "kind"), ("", "piece"))
    cells = "".join(f'<th scope="col" class="{kind}">{name}</th>' for kind, name in head)
    yield f"<thead><tr>{cells}</tr></thead><tbody>"
    start, left_out, tail = _ends(tokens)
    yield from _rows(start)
    if left_out:
        yield f'<tr><td colspan="5">... {len(left_out):,} ids are left out here ...</td></tr>'
    yield from _rows(tail)
    yield "</tbody></table></div></div>"


def _legend(one: Explanation) -> Iterator[str]:
    kinds = dict.fromkeys(segment.kind.value for segment in one.segments)
    if any(segment.in_mask for segment in one.segments):
        kinds["mask"] = None
    shown = [f'<li><span class="{k}">{_LEGEND[k]}</span></li>' for k in kinds if k in _LEGEND]
    if shown:
        yield f'<ul class="legend" aria-label="Legend">{"".join(shown)}</ul>'


def _marked(one: Explanation) -> Iterator[str]:
    """The text, a span for each group of characters."""
    if one.text is None:
        yield from map(_piece, _ends(one.tokens)[0])
    elif not one.segments:
        yield _lines(one.text)
    else:
        head, left_out, tail = _ends(one.segments)
        yield from (_span(one.text, segment) for segment in head)
        if left_out:
            between = one.text[left_out[0].start : left_out[-1].stop]
            yield f"\n<strong>... {len(between):,} characters are left out here ...</strong>\n"
        yield from (_span(one.text, segment) for segment in tail)


def _piece(token: TokenView) -> str:
    kind = "" if token.kind is TokenKind.TEXT else f' class="{token.kind.value}"'
    return f"<span{kind}{_place(token.index, token.index)}>{_lines(token.piece)}</span>"


def _span(text: str, segment: Segment) -> str:
    kinds = [segment.kind.value] if segment.kind.value != "text" else []
    kinds += ["mask"] if segment.in_mask else []
    named = f' class="{" ".join(kinds)}"' if kinds else ""
    at = "" if segment.tokens is None else _place(*segment.tokens)
    return f"<span{named}{at}>{_lines(text[segment.start : segment.stop])}</span>"


def _place(first: int, last: int) -> str:
    return f' data-t="{first}-{last}" tabindex="-1"'


def _lines(text: str) -> str:
    """Text with line ends that are seen and not copied."""
    return _text(text).replace("\n", '<i class="nl"></i>\n')


def _rows(tokens: Sequence[TokenView]) -> Iterator[str]:
    """A row each, but one for the ids of a picture that are the same."""
    for (_, kind, _), group in groupby(tokens, key=lambda t: (t.id, t.kind, t.offsets)):
        same = list(group)
        if kind in (TokenKind.MEDIA, TokenKind.PADDING):
            yield _row(same[0], same[-1])
        else:
            yield from (_row(token, token) for token in same)


def _row(first: TokenView, last: TokenView) -> str:
    index = f"{first.index}" if first is last else f"{first.index}\u2013{last.index}"
    where = "-" if first.offsets is None else f"{first.offsets[0]}..{first.offsets[1]}"
    kind = first.kind.value
    mask = " mask" if first.in_mask else ""
    return (
        f'<tr{_place(first.index, last.index)}><td class="number">{index}</td>'
        f'<td class="number">{first.id}</td><td>{where}</td><td>{kind}{mask}</td>'
        f'<td><span class="{kind}">{escape(quoted(first.piece))}</span></td></tr>'
    )


def _ends(items: Sequence[T]) -> tuple[Sequence[T], Sequence[T], Sequence[T]]:
    """Both ends of what is too long to be shown, and what lies between."""
    half = MOST_SHOWN // 2
    if len(items) <= MOST_SHOWN:
        return items, (), ()
    return items[:half], items[half:-half], items[-half:]

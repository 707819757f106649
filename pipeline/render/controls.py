"""Control spellings: texts that the tokenizer would take for one of its added tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from promptmill.pipeline.engines.spec import added_tokens
from promptmill.pipeline.identity import ByIdentity
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.json_types import Json
from promptmill.schemas.request import CharSpan

Trie: TypeAlias = "dict[str, Trie]"

COUNTS_KEPT: Final = 64
"""Tools whose control spellings were counted."""

_END: Final = ""
"""The key that ends a spelling in a trie."""


class ControlSpellings:
    """Finds the spellings of added tokens in text, the longest at each place.

    Runs of white space that some tokenizers add as tokens control nothing and are not counted;
    words that only match between word boundaries are not markers either.
    """

    def __init__(self, bundle: ModelBundle) -> None:
        added = _added_spellings(bundle) - {""}
        self.controls = frozenset(s for s in added if s.strip(" \t\r\n▁"))
        """All but the white space."""
        self._added = re.compile(pattern(added))
        self._controls = re.compile(pattern(self.controls))
        in_json = [msgspec.json.encode(s)[1:-1].decode("latin-1") for s in self.controls]
        self._in_json = re.compile(pattern(in_json).encode("latin-1"))
        self._counted = ByIdentity[int](COUNTS_KEPT)
        self._firsts = tuple({spelling[0] for spelling in self.controls})

    def find_added(self, text: str) -> list[CharSpan]:
        """The ranges of all added tokens, white space included, in order."""
        return [match.span() for match in self._added.finditer(text)]

    def find(self, text: str) -> list[CharSpan]:
        """The ranges of control spellings, in order."""
        return [match.span() for match in self._controls.finditer(text)]

    def ends(self, text: str) -> bool:
        """Whether a text ends in a control spelling."""
        return text.endswith(tuple(self.controls))

    def count(self, values: Sequence[Json]) -> int:
        """How many control spellings the strings of values hold, keys of objects included."""
        texts = [value for value in values if isinstance(value, str)]
        if len(texts) < len(values):
            others: list[Json] = [v for v in values if not (v is None or isinstance(v, str))]
            if others and self._may_be_in(others):
                texts += strings_in(others)
        return sum(len(self._controls.findall(text)) for text in self._suspects(texts))

    def count_in_tools(self, tools: Json) -> int:
        """The same for the tools of a row, which others may share: each is looked at once."""
        if not isinstance(tools, list):
            return self.count([tools])
        found = 0
        for item in tools:
            known = self._counted.get(item)
            found += self._counted.keep(item, self.count([item])) if known is None else known
        return found

    def _suspects(self, texts: Sequence[str]) -> Sequence[str]:
        """Most texts have not even the first character of a spelling."""
        if len(self._firsts) == 1:
            (first,) = self._firsts
            return [text for text in texts if first in text]
        return [text for text in texts if any(first in text for first in self._firsts)]

    def _may_be_in(self, values: Sequence[Json]) -> bool:
        """Written as JSON, most values show at once that they hold none."""
        try:
            return self._in_json.search(msgspec.json.encode(values)) is not None
        except (OverflowError, ValueError, RecursionError):  # more than msgspec can write
            return True


def strings_in(value: Json) -> Iterator[str]:
    """All strings of a JSON value, keys of objects included, in any order and at any depth."""
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            yield from item
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)


def _added_spellings(bundle: ModelBundle) -> set[str]:
    if bundle.backend is None:
        return {*bundle.facts.all_special_tokens}
    return {t.content for t in added_tokens(bundle.backend) if not t.single_word}


def pattern(spellings: Iterable[str]) -> str:
    """A regular expression for the longest of many strings, without trying them one by one."""
    trie: Trie = {}
    for spelling in spellings:
        node = trie
        for character in spelling:
            node = node.setdefault(character, {})
        node[_END] = {}
    return _alternatives(trie) or "(?!)"


def _alternatives(node: Trie) -> str:
    branches = [re.escape(c) + _alternatives(child) for c, child in node.items() if c != _END]
    if not branches:
        return ""
    joined = branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
    return f"(?:{joined})?" if _END in node else joined

"""Strings that remember which of their characters came from content.

`--escape-control-tokens` must tell a `<|im_end|>` that the template wrote from one that a user
typed. So the template is run a second time on content in which the characters that could begin a
control spelling are exchanged for their *shadows*: private-use characters, one for one. Whatever
the template does with the text, a shadow in its output came from content; and no control spelling
can begin at one.

A template may look at the content, though (`'</think>' in content`, `content.split('</think>')`).
A `Shadow` answers as the real text would, and what it hands out is a `Shadow` again. Where the
template looks in a way that a `Shadow` cannot notice, its output differs from the first run in
more than shadows, and the caller sees that.
"""

# mypy: disable-error-code="override"
# The methods of `str` are overloaded for literals, which means nothing here.

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, SupportsIndex

_PLANE: Final = 0xF0000
"""Shadows live in the first private-use plane, which has room for all characters below it."""

_SHADOWS: Final = re.compile("[\U000f0000-\U000ffffd]")


def shadow_of(text: str) -> str:
    """Each character of a text exchanged for its shadow, if it has one."""
    return "".join(chr(_PLANE + ord(c)) if ord(c) < 0xFFFE else c for c in text)


def plain(text: str) -> str:
    """The real text."""
    return _SHADOWS.sub(lambda match: chr(ord(match[0]) - _PLANE), text)


def has_shadows(text: str) -> bool:
    """Whether any character is a shadow."""
    return _SHADOWS.search(text) is not None


def shadow_join(pieces: Iterable[str]) -> str:
    """`"".join` for Jinja: what macros and set blocks wrote."""
    return _kept("".join(pieces))


class Shadow(str):
    """A string that may hold shadows and behaves as the real text."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return plain(self) == plain(other) if isinstance(other, str) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return plain(self) != plain(other) if isinstance(other, str) else NotImplemented

    def __hash__(self) -> int:
        return hash(plain(self))

    def __contains__(self, key: str) -> bool:
        return plain(key) in plain(self)

    def __add__(self, other: str) -> str:
        return _kept(str.__add__(self, other))

    def __radd__(self, other: str) -> str:
        return _kept(str.__add__(other, self)) if isinstance(other, str) else NotImplemented

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        return _kept(str.__getitem__(self, key))

    def __iter__(self) -> Iterator[str]:
        return map(_kept, str.__iter__(self))

    def find(self, sub: str, *bounds: int) -> int:
        """As `str.find` of the real text."""
        return plain(self).find(plain(sub), *bounds)

    def rfind(self, sub: str, *bounds: int) -> int:
        """As `str.rfind` of the real text."""
        return plain(self).rfind(plain(sub), *bounds)

    def count(self, sub: str, *bounds: int) -> int:
        """As `str.count` of the real text."""
        return plain(self).count(plain(sub), *bounds)

    def startswith(self, prefix: str | tuple[str, ...], *bounds: int) -> bool:
        """As `str.startswith` of the real text."""
        return plain(self).startswith(_plain_each(prefix), *bounds)

    def endswith(self, suffix: str | tuple[str, ...], *bounds: int) -> bool:
        """As `str.endswith` of the real text."""
        return plain(self).endswith(_plain_each(suffix), *bounds)

    def split(self, sep: str | None = None, maxsplit: int = -1) -> list[str]:
        """As `str.split` of the real text."""
        if sep is None:
            return [_kept(part) for part in str.split(self, None, maxsplit)]
        return self._parts(plain(self).split(plain(sep), maxsplit), len(sep))

    def rsplit(self, sep: str | None = None, maxsplit: int = -1) -> list[str]:
        """As `str.rsplit` of the real text."""
        if sep is None:
            return [_kept(part) for part in str.rsplit(self, None, maxsplit)]
        return self._parts(plain(self).rsplit(plain(sep), maxsplit), len(sep))

    def partition(self, sep: str) -> tuple[str, str, str]:
        """As `str.partition` of the real text."""
        left, middle, right = self._parts(plain(self).partition(plain(sep)), 0)
        return left, middle, right

    def replace(self, old: str, new: str, count: int = -1) -> str:
        """As `str.replace` of the real text."""
        replaced = new.join(self.split(old, count)) if old else str.replace(self, old, new, count)
        return _kept(replaced)

    def strip(self, chars: str | None = None) -> str:
        """As `str.strip` of the real text."""
        return self.rstrip(chars).lstrip(chars)

    def lstrip(self, chars: str | None = None) -> str:
        """As `str.lstrip` of the real text."""
        kept = plain(self).lstrip(None if chars is None else plain(chars))
        return self[len(self) - len(kept) :]

    def rstrip(self, chars: str | None = None) -> str:
        """As `str.rstrip` of the real text."""
        return self[: len(plain(self).rstrip(None if chars is None else plain(chars)))]

    def _parts(self, parts: Iterable[str], gap: int) -> list[str]:
        """The same parts, with their shadows; they stand `gap` characters apart in the text."""
        found, at = list[str](), 0
        for part in parts:
            found.append(self[at : at + len(part)])
            at += len(part) + gap
        return found


def _kept(text: str) -> str:
    return Shadow(text) if has_shadows(text) else text


def _plain_each(texts: str | tuple[str, ...]) -> str | tuple[str, ...]:
    return tuple(map(plain, texts)) if isinstance(texts, tuple) else plain(texts)

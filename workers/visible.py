"""Texts of others, made safe to look at."""

from __future__ import annotations

from typing import Final

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

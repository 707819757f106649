"""What this Python knows of Unicode, where engines may know another version."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from itertools import groupby


def is_nfc(text: str) -> bool:
    """Whether normalizing to NFC leaves the text as it is."""
    return text.isascii() or unicodedata.is_normalized("NFC", text)


def has_unassigned(text: str) -> bool:
    """Whether the text holds code points that this Python's Unicode does not know.

    Newer tables may call them letters, digits or marks.
    """
    return not text.isascii() and _unassigned().search(text) is not None


@cache
def _unassigned() -> re.Pattern[str]:
    codes = range(0x80, sys.maxunicode + 1)
    ranges = []
    for unknown, run in groupby(codes, lambda code: unicodedata.category(chr(code)) == "Cn"):
        if unknown:
            first, *rest = run
            ranges.append(f"\\U{first:08x}-\\U{(rest or [first])[-1]:08x}")
    return re.compile(f"[{''.join(ranges)}]")

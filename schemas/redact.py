"""Credentials taken out of what people or logs get to see."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "***"

_USER = re.compile(r"(?<=://)(?:A[KS]IA\w*:[^\s@'\"]+|[^/?#\s@'\"]+)(?=@)")
"""`user:password` before the host of a URL; a key of AWS may have unescaped slashes."""
_PARAMETER = re.compile(
    r"(?i)([?&](?:[\w.-]*(?:signature|credential|token|secret|password|api[_-]?key|access[_-]?key"
    r"(?:[_-]?id)?)|sig|key)=)[^&#\s'\"]+"
)
"""Query parameters by which a URL carries its own permission (signed URLs and the like)."""
_HUB_TOKEN = re.compile(r"\bhf_[A-Za-z0-9]{16,}")


def redacted(text: str) -> str:
    """The text, which may hold URLs, with `***` in place of every credential in it."""
    if "://" in text:
        text = _USER.sub(HIDDEN, text)
        text = _PARAMETER.sub(rf"\1{HIDDEN}", text)
    return _HUB_TOKEN.sub(f"hf_{HIDDEN}", text)

"""Which rejects a server is asked for: it should refuse them as well."""

from __future__ import annotations

from typing import Final

from promptmill.schemas.errors import ErrorCode
from promptmill.schemas.json_types import Json

_NO_REQUEST: Final = frozenset(
    {
        ErrorCode.LINE_TOO_LONG,
        ErrorCode.INVALID_UTF8,
        ErrorCode.UNREADABLE_INPUT,
        ErrorCode.INVALID_JSON,
        ErrorCode.NESTING_TOO_DEEP,
        ErrorCode.LONE_SURROGATE,
    }
)
_NOT_OF_SERVERS: Final = frozenset(
    {
        ErrorCode.DUPLICATE_ID,
        ErrorCode.UNSUPPORTED_REQUEST,
        ErrorCode.TEMPLATE_TIMEOUT,
        ErrorCode.MASK_UNAVAILABLE,
        ErrorCode.ESCAPE_UNAVAILABLE,
        ErrorCode.MEDIA_NOT_ALLOWED,
        ErrorCode.MEDIA_FETCH_FAILED,
        ErrorCode.PLACEHOLDER_IN_TEXT,
        ErrorCode.WORKER_CRASHED,
        ErrorCode.MEMORY_EXCEEDED,
        ErrorCode.INTERNAL_ERROR,
    }
)
"""Rejects whose reason no server shares (docs/same-as-online.md), or that say nothing of a row."""


def why_not_asked(code: ErrorCode, value: Json, max_model_len: int) -> str | None:
    """Why a server's answer would say nothing of a reject; None where it does.

    Args:
        code: of the reject.
        value: its error's; the number of ids where a prompt is too long.
        max_model_len: the context length.
    """
    if code in _NO_REQUEST:
        return "rejects that are no request"
    if code in _NOT_OF_SERVERS:
        return f"rejects for reasons of our own ({code})"
    too_long = code in (ErrorCode.PROMPT_TOO_LONG, ErrorCode.DROPPED_OVERLONG)
    fills_context = too_long and value == max_model_len  # leaves no room for output
    if code is ErrorCode.TOKEN_OUT_OF_VOCABULARY or fills_context:
        return f"rejects that only an engine refuses ({code})"
    return None

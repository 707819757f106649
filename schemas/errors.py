"""The one error a row may end in, and the codes it may carry.

    RowError          this row is a reject; everything else goes on
    JobError          the run cannot start or go on; nothing of the output is touched

Both pickle (they cross Ray): every argument is kept, `__reduce__` says how to build them again.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, TypeAlias

from promptmill.schemas.redact import redacted

ErrorValue: TypeAlias = "int | float | str | bool | None"

_TWO_STOPS: Final = re.compile(r"(?<=[^\s./])\.\.(?!\S)")
"""What comes of a library's sentence within one of ours; neither `...` nor a path."""


class Stage(StrEnum):
    """The hop of a record's way at which it failed (see the README's picture)."""

    READ = "read"
    PARSE = "parse"
    RENDER = "render"
    TOKENIZE = "tokenize"
    EXPAND = "expand"
    FIT = "fit"
    WRITE = "write"


class ErrorCode(StrEnum):
    """Why a row became a reject. The values are part of the output format."""

    # read
    LINE_TOO_LONG = "line_too_long"
    INVALID_UTF8 = "invalid_utf8"
    UNREADABLE_INPUT = "unreadable_input"
    # parse
    INVALID_JSON = "invalid_json"
    NESTING_TOO_DEEP = "nesting_too_deep"
    LONE_SURROGATE = "lone_surrogate"
    INVALID_REQUEST = "invalid_request"
    UNSUPPORTED_REQUEST = "unsupported_request"
    DUPLICATE_ID = "duplicate_id"
    EMPTY_PROMPT = "empty_prompt"
    # render
    NO_CHAT_TEMPLATE = "no_chat_template"
    UNTRUSTED_TEMPLATE = "untrusted_template"
    TEMPLATE_ERROR = "template_error"
    TEMPLATE_TIMEOUT = "template_timeout"
    TEMPLATE_OUTPUT_TOO_LARGE = "template_output_too_large"
    MASK_UNAVAILABLE = "mask_unavailable"
    ESCAPE_UNAVAILABLE = "escape_unavailable"
    # tokenize
    TOKENIZER_ERROR = "tokenizer_error"
    TOKEN_OUT_OF_VOCABULARY = "token_out_of_vocabulary"
    # media
    MEDIA_UNSUPPORTED = "media_unsupported"
    MEDIA_LIMIT = "media_limit"
    MEDIA_UNREADABLE = "media_unreadable"
    MEDIA_NOT_ALLOWED = "media_not_allowed"
    MEDIA_FETCH_FAILED = "media_fetch_failed"
    MEDIA_SPLIT = "media_split"
    PLACEHOLDER_IN_TEXT = "placeholder_in_text"
    PLACEHOLDER_MISMATCH = "placeholder_mismatch"
    # budgets
    INVALID_BUDGET = "invalid_budget"
    PROMPT_TOO_LONG = "prompt_too_long"
    DROPPED_OVERLONG = "dropped_overlong"
    # the process around the row
    WORKER_CRASHED = "worker_crashed"
    MEMORY_EXCEEDED = "memory_exceeded"
    INTERNAL_ERROR = "internal_error"


class RowError(Exception):
    """A row that cannot be carried on.

    Args:
        code: the kind, stable across releases.
        message: a sentence with the values, the limit and the way out. Never row content.
        parameter: the request field at fault, named as vLLM names it, if one is.
        value: the value of that field, when it is a small scalar.
        stage: the hop at which it happened; filled in by the encoder where a step leaves it out.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        parameter: str | None = None,
        value: ErrorValue = None,
        stage: Stage | None = None,
    ) -> None:
        message = _TWO_STOPS.sub(".", message)
        super().__init__(message)
        self.code = code
        self.message = message
        self.parameter = parameter
        self.value = value
        self.stage = stage

    def without_trace(self) -> None:
        """Let go of the frames that it was raised in, which hold the row and this error.

        Such a circle lives until the garbage collector comes by, which is rare on purpose.
        """
        self.__traceback__ = self.__context__ = self.__cause__ = None

    def __reduce__(self) -> tuple[object, ...]:
        fields = (self.code, self.message, self.parameter, self.value, self.stage)
        return (_row_error, fields)


def _row_error(
    code: ErrorCode,
    message: str,
    parameter: str | None,
    value: ErrorValue,
    stage: Stage | None,
) -> RowError:
    return RowError(code, message, parameter=parameter, value=value, stage=stage)


class JobError(Exception):
    """The run as a whole cannot start or go on (exit code 1). The message names the way out.

    Credentials of URLs in the message are starred out.
    """

    def __init__(self, message: str) -> None:
        super().__init__(_TWO_STOPS.sub(".", redacted(message)))

"""A line of a rejects file: OpenAI Batch shaped, plus what finds the row and runs it again.

    {"id", "custom_id", "response": {"status_code", "request_id", "body"}, "error": {"code", ...},
     "stage", "source", "row_index", "prompt_index", "request", "raw"?,
     "columnar"?}

`request` is the original row as JSON. What strict JSON cannot say (NaN, lone surrogates, broken
syntax) is in `raw.text`, as the text it was; what is no text or was too long to read is null, with
its place in the file and its first bytes in `raw`. Bytes of columnar files become
`{"$base64": "..."}`; values that JSON has no type for (dates, decimals) become strings.
"""

from __future__ import annotations

import base64
import contextlib
import json
from typing import Final, TypeAlias, cast

import msgspec

from promptmill.schemas.errors import ErrorCode, ErrorValue, Stage
from promptmill.schemas.json_types import Json, JsonObject

REQUEST: Final = "request"
ERROR: Final = "error"
STAGE: Final = "stage"
RAW: Final = "raw"
TEXT: Final = "text"
COLUMNAR: Final = "columnar"
CUSTOM_ID: Final = "custom_id"
PROMPT_INDEX: Final = "prompt_index"
"""Keys that reading a rejects file as input needs."""

BASE64: Final = "$base64"
"""The only key of an object that stands for bytes."""

HEAD_BYTES: Final = 4096
"""How much of a row that is not carried is kept to recognise it."""

OriginalRow: TypeAlias = "bytes | JsonObject | None"
"""As `RawRow.data`: a JSON line or a decoded row; None where it was not carried."""

_STATUS: Final = {
    ErrorCode.MEDIA_FETCH_FAILED: 422,
    ErrorCode.UNREADABLE_INPUT: 500,
    ErrorCode.TOKENIZER_ERROR: 500,
    ErrorCode.WORKER_CRASHED: 500,
    ErrorCode.MEMORY_EXCEEDED: 500,
    ErrorCode.INTERNAL_ERROR: 500,
    ErrorCode.TEMPLATE_TIMEOUT: 504,
}


def status_code(code: ErrorCode) -> int:
    """The HTTP status of a reject: 400 is the row's fault, 5xx is not."""
    return _STATUS.get(code, 400)


class ErrorInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """`error`: why the row was rejected."""

    code: ErrorCode
    message: str
    param: str | None
    """The request field at fault, if one is."""
    value: ErrorValue = None
    """Its value, when it is a small scalar."""


class BodyError(msgspec.Struct, frozen=True):
    """The error as a server's answer carries it."""

    message: str
    type: str
    """`invalid_request_error` or `server_error`."""
    param: str | None
    code: ErrorCode


class Body(msgspec.Struct, frozen=True):
    """The body of the answer, for clients that look for the error there."""

    error: BodyError


class Response(msgspec.Struct, frozen=True):
    """`response`: what a server would have answered."""

    status_code: int
    request_id: str
    body: Body


class RawRowInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """`raw`: a row that `request` cannot carry."""

    byte_range: tuple[int, int] | None
    """Where its line lies in the (uncompressed) file; None for columnar files."""
    text: str | None = None
    """The whole row, where it is text."""
    head_base64: str | None = None
    """Otherwise its first bytes."""


class RejectLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line. `id` is the same for the same row of the same input, run after run."""

    id: str
    custom_id: str | None
    response: Response
    error: ErrorInfo
    stage: Stage | None
    source: str
    row_index: int
    prompt_index: int
    """Of a row with several prompts, only this one was rejected."""
    request: msgspec.Raw
    """The original row, a JSON value; `null` where `raw` is set."""
    raw: RawRowInfo | None = None
    columnar: bool = False
    """Whether the row was no JSON line: JSON text and bytes in its columns mean what they hold."""


def is_reject_line(row: JsonObject) -> bool:
    """Whether an input row is a line of a rejects file."""
    return REQUEST in row and ERROR in row and STAGE in row


def original_row(line: JsonObject) -> OriginalRow:
    """The row that a reject line was made of, as `RawRow.data` had it.

    Returns:
        The decoded row, bytes put back; the line as it was where only its text could be carried;
        None where neither was.
    """
    request, columnar = line[REQUEST], line.get(COLUMNAR) is True
    if request is not None:
        return cast(JsonObject, _with_bytes(request)) if columnar else json.dumps(request).encode()
    raw = line.get(RAW)
    if not isinstance(raw, dict) or not isinstance(text := raw.get(TEXT), str):
        return None
    if columnar:
        return cast(JsonObject, _with_bytes(json.loads(text)))
    return text.encode("utf-8", "surrogatepass")


def _with_bytes(value: Json) -> object:
    if isinstance(value, dict):
        content = value.get(BASE64)
        if len(value) == 1 and isinstance(content, str):
            with contextlib.suppress(ValueError):
                return base64.b64decode(content, validate=True)
        return {key: _with_bytes(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_bytes(item) for item in value]
    return value

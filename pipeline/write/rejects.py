"""Rejects to a JSONL file, one line each, with the row as it was read."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from promptmill.pipeline.write.sink import HashingFile
from promptmill.schemas.errors import ErrorValue, RowError
from promptmill.schemas.reject import (
    BASE64,
    HEAD_BYTES,
    Body,
    BodyError,
    ErrorInfo,
    OriginalRow,
    RawRowInfo,
    RejectLine,
    Response,
    status_code,
)
from promptmill.schemas.request import RawRow, Reject


@dataclass(frozen=True, slots=True)
class RejectsInfo:
    """A finished rejects file."""

    rows: int
    bytes: int
    sha256: str


class RejectWriter:
    """Writes one rejects file; a context manager that discards the file on an error."""

    def __init__(self, path: Path) -> None:
        self._file = HashingFile(path)
        self._rows = 0

    def write(self, rejects: Sequence[Reject]) -> None:
        """Append a line for each, in the order given."""
        for reject in rejects:
            self._file.write(msgspec.json.encode(reject_line(reject)) + b"\n")
        self._rows += len(rejects)

    def close(self) -> RejectsInfo:
        """Finish the file."""
        self._file.close()
        return RejectsInfo(self._rows, self._file.size, self._file.sha256)

    def abort(self) -> None:
        """Discard the file."""
        self._file.discard()

    def __enter__(self) -> RejectWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close() if kind is None else self.abort()


def reject_line(reject: Reject) -> RejectLine:
    """The line of a reject; the same for the same row of the same input."""
    row, error = reject.row, reject.error
    place = f"{row.source}\0{row.row_index}\0{reject.prompt_index}"
    digest = hashlib.sha256(place.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    request, raw, columnar = _carry(row)
    return RejectLine(
        id=f"reject-{digest}",
        custom_id=None if reject.custom_id is None else _text(reject.custom_id),
        response=_response(error, f"req-{digest}"),
        error=ErrorInfo(error.code, _text(error.message), error.parameter, _scalar(error.value)),
        stage=error.stage,
        source=_text(row.source),
        row_index=row.row_index,
        prompt_index=reject.prompt_index,
        request=request,
        raw=raw,
        columnar=columnar,
    )


def _response(error: RowError, request_id: str) -> Response:
    status = status_code(error.code)
    kind = "server_error" if status >= 500 else "invalid_request_error"
    body = Body(BodyError(_text(error.message), kind, error.parameter, error.code))
    return Response(status, request_id, body)


_NULL = msgspec.Raw(b"null")


class _Carried(msgspec.Struct, frozen=True):
    """What the line of a rejects file says of its row; see `is_reject_line`."""

    request: msgspec.Raw
    error: msgspec.Raw
    stage: msgspec.Raw
    raw: RawRowInfo | None = None
    columnar: bool = False


def _carry(row: RawRow) -> tuple[msgspec.Raw, RawRowInfo | None, bool]:
    """The original row as JSON of one line, else as text, else by its first bytes.

    Of the line of a rejects file, what it carries: the row of its first run.
    """
    if (again := _carried(row.data)) is not None:
        return again.request, again.raw, again.columnar
    line, columnar = _as_line(row), isinstance(row.data, dict)
    if line is not None:
        if _strict_json(line):
            return msgspec.Raw(msgspec.json.format(line, indent=-1)), None, columnar
        try:
            return _NULL, RawRowInfo(row.byte_range, text=line.decode()), columnar
        except UnicodeDecodeError:
            pass
    head = base64.b64encode((row.head if line is None else line)[:HEAD_BYTES])
    return _NULL, RawRowInfo(row.byte_range, head_base64=head.decode()), columnar


def _carried(data: OriginalRow) -> _Carried | None:
    """The innermost reject line in a row; None where it is none, or carries nothing."""
    found = None
    while isinstance(data, bytes) and _strict_json(data):
        try:
            line = msgspec.json.decode(data, type=_Carried)
        except (msgspec.DecodeError, RecursionError):
            break
        data = msgspec.json.format(bytes(line.request), indent=-1)
        if data != b"null" or line.raw is not None:
            found = msgspec.structs.replace(line, request=msgspec.Raw(data))
        if line.columnar:
            break
    return found


def _as_line(row: RawRow) -> bytes | None:
    if row.data is None or isinstance(row.data, bytes):
        return row.data
    try:
        text = json.dumps(row.data, ensure_ascii=False, default=_plain, separators=(",", ":"))
    except (RecursionError, TypeError, ValueError):
        return None
    # A lone surrogate becomes its JSON escape: the two spellings are the same.
    return text.encode("utf-8", "backslashreplace")


def _plain(value: object) -> object:
    return {BASE64: base64.b64encode(value).decode()} if isinstance(value, bytes) else str(value)


def _strict_json(line: bytes) -> bool:
    """Whether every reader of JSON takes it: UTF-8, no NaN, no lone surrogate, not absurdly deep.

    `null` is not carried as JSON either, where it would say that there is nothing.
    """
    try:
        return msgspec.json.decode(line) is not None
    except (msgspec.DecodeError, RecursionError):
        return False


def _text(text: str) -> str:
    """`text` with lone surrogates replaced, which UTF-8 cannot say."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _scalar(value: ErrorValue) -> ErrorValue:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value

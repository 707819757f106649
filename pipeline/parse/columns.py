"""A row of a columnar file as the JSON object that it stands for.

What has no fixed type is often stored there as JSON text, and media as bytes. (Reading has made
null an absent key and dates text.)
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final, cast

from promptmill.pipeline.parse.decode import check_tree, decode_text, nesting_too_deep
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import Json, JsonObject

JSON_COLUMNS: Final = frozenset(
    {
        "allowed_token_ids",
        "bad_words",
        "body",
        "chat_template_kwargs",
        "documents",
        "ec_transfer_params",
        "kv_transfer_params",
        "logit_bias",
        "logprob_token_ids",
        "media_io_kwargs",
        "messages",
        "mm_processor_kwargs",
        "repetition_detection",
        "response_format",
        "stop_token_ids",
        "stream_options",
        "structured_outputs",
        "tools",
        "vllm_xargs",
    }
)
"""Fields that are never a string, so that a string there is JSON text."""

_TEXT_COLUMNS: Final = JSON_COLUMNS | {"custom_id", "id", "input", "prompt"}
"""Where bytes are text: some writers store strings as binary."""
_MEDIA_COLUMNS: Final = frozenset({"messages", "body"})
"""Where bytes are media: they become data URLs, the form that JSON has for them."""


def row_object(row: JsonObject, text_column: str | None = None) -> JsonObject:
    """The row with JSON text decoded, media as data URLs, bytes of texts as text, others left out.

    The row itself is not changed.

    Args:
        row: as read.
        text_column: the column of plain text, which is no JSON text whatever its name.

    Raises:
        RowError: `invalid_json` or `invalid_utf8` naming the column; `nesting_too_deep`,
            `lone_surrogate`.
    """
    check_tree(row)
    cells: Mapping[str, object] = row
    found: JsonObject = {}
    for name, cell in cells.items():
        if isinstance(cell, bytes) and (name in _TEXT_COLUMNS or name == text_column):
            cell = _text(name, cell)
        if isinstance(cell, str) and name in JSON_COLUMNS and name != text_column:
            found[name] = _decoded(name, cell)
        elif not isinstance(cell, bytes):
            try:
                found[name] = _without_bytes(cell, media=name in _MEDIA_COLUMNS)
            except RecursionError as error:  # a level takes more than one call here
                raise nesting_too_deep() from error
    return found


def _text(name: str, cell: bytes) -> str:
    try:
        return cell.decode()
    except UnicodeDecodeError as error:
        raise RowError(
            ErrorCode.INVALID_UTF8,
            f"Column {name} holds bytes that are not UTF-8 ({error.reason} at byte "
            f"{error.start}). Store it as text.",
            parameter=name,
        ) from None


def _decoded(name: str, text: str) -> Json:
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return decode_text(text)
    except RowError as error:
        raise RowError(error.code, f"Column {name}: {error.message}", parameter=name) from error


def _without_bytes(value: object, *, media: bool) -> Json:
    """The value with bytes as data URLs where they are media, else as null."""
    if isinstance(value, dict):
        return {key: _without_bytes(item, media=media) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_bytes(item, media=media) for item in value]
    if isinstance(value, bytes):
        return f"data:;base64,{base64.b64encode(value).decode()}" if media else None
    return cast(Json, value)

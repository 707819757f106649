"""A row of a columnar file as the JSON object that it stands for.

Columnar files cannot leave a key out, so null means absent; what has no fixed type is often
stored as JSON text; and they hold values that JSON has no form for.
"""

from __future__ import annotations

from typing import Final

from promptmill.pipeline.parse.decode import check_tree, decode_text
from promptmill.schemas.errors import RowError
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


def row_object(row: JsonObject) -> JsonObject:
    """The row without nulls (`content` may be null), JSON text decoded.

    Values that JSON has no form for (bytes, dates, decimals) are left out. The row itself is not
    changed.

    Raises:
        RowError: `invalid_json` naming the column; `nesting_too_deep`, `lone_surrogate`.
    """
    check_tree(row)
    cleaned = _object(row)
    for name in JSON_COLUMNS & cleaned.keys():
        value = cleaned[name]
        if isinstance(value, str):
            try:
                cleaned[name] = decode_text(value)
            except RowError as error:
                raise RowError(error.code, f"Column {name}: {error.message}") from error
    return cleaned


def _object(value: JsonObject) -> JsonObject:
    return {
        key: _cleaned(item)
        for key, item in value.items()
        if (item is not None or key == "content") and _is_json(item)
    }


def _cleaned(value: Json) -> Json:
    if isinstance(value, dict):
        return _object(value)
    if isinstance(value, list):
        return [_cleaned(item) for item in value if _is_json(item)]
    return value


def _is_json(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | list | dict)

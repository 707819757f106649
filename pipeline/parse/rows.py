"""A raw row to requests: the envelope opened, ids settled, one request for each prompt."""

from __future__ import annotations

from typing import Final

from promptmill.pipeline.model.deepseek_tokens import is_deepseek
from promptmill.pipeline.parse.api_bodies import api_of, parse_api_body
from promptmill.pipeline.parse.body import ParsedBody, parse_body
from promptmill.pipeline.parse.columns import row_object
from promptmill.pipeline.parse.decode import decode_line, readable_part
from promptmill.pipeline.parse.shapes import endpoint_of
from promptmill.schemas import reject as reject_format
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.json_types import Json, JsonObject
from promptmill.schemas.options import JobOptions
from promptmill.schemas.reject import OriginalRow
from promptmill.schemas.request import (
    Budget,
    Endpoint,
    Place,
    RawRow,
    Reject,
    Request,
    TextPrompt,
)

_ID_KEYS: Final = ("custom_id", "id")
_PROMPT_KEYS: Final = frozenset({"messages", "prompt", "input"})
_REQUEST_KEYS: Final = _PROMPT_KEYS | {"body"}


def parse_row(row: RawRow, options: JobOptions) -> list[Request | Reject]:
    """The requests of a row in the order of its prompts, or one reject; never raises.

    A row is a body of the chat, completions or embeddings API, an OpenAI Batch envelope around
    one (`method` is not looked at, as in vLLM's batch runner), a document (`text_column`), or a
    line of a rejects file, which stands for the row, or the one prompt, that was rejected. A
    blank line gives [].
    """
    custom_id = f"{row.source}:{row.row_index}"
    only = None
    if row.error is not None:
        row.error.stage = row.error.stage or Stage.READ
        return [Reject(row, row.error, custom_id)]
    try:
        value = _object(row.data, options)
        if value is None:
            return []
        if reject_format.is_reject_line(value):
            line = value
            custom_id = _scalar_id(line.get(reject_format.CUSTOM_ID)) or custom_id
            value = _original(line, options)
            custom_id, only = _again(line, custom_id, _own_id(value, options))
        else:
            custom_id = _own_id(value, options) or custom_id
        parsed = _parsed(value, options)
    except RowError as error:
        error.stage = error.stage or Stage.PARSE
        if error.code is ErrorCode.LONE_SURROGATE and isinstance(row.data, bytes):
            custom_id = _own_id(readable_part(row.data), options) or custom_id
        return [Reject(row, error, custom_id)]
    count = len(parsed.prompts)
    if count == 1:
        return [_request(parsed, custom_id, 0, row)]
    chosen = range(count) if only is None or only >= count else (only,)
    return [_request(parsed, f"{custom_id}-{i}", i, row) for i in chosen]


def row_body(row: RawRow, options: JobOptions) -> JsonObject:
    """The request body that a row carries, as it came: what a client would send.

    A document is the body of a completion.

    Raises:
        RowError: the row cannot be read, or carries none.
    """
    if row.error is not None:
        raise row.error
    value = _object(row.data, options) or {}
    if reject_format.is_reject_line(value):
        value = _original(value, options)
    if options.text_column is not None and options.text_column in value:
        return {"prompt": value[options.text_column]}
    return _opened(value, options.id_column)[0]


def _request(parsed: ParsedBody, custom_id: str, index: int, row: RawRow) -> Request:
    return Request(
        custom_id=custom_id,
        place=Place(row.source, row.row_index, index),
        endpoint=parsed.endpoint,
        prompt=parsed.prompts[index],
        budget=parsed.budget,
        passthrough=parsed.passthrough,
        warnings=parsed.warnings,
    )


def _object(data: OriginalRow, options: JobOptions) -> JsonObject | None:
    """The row as an object; None for a blank line."""
    if isinstance(data, dict):
        return row_object(data, options.text_column)
    if data is None or not data.strip():
        return None
    value = decode_line(data)
    if isinstance(value, dict):
        return value
    raise RowError(ErrorCode.INVALID_REQUEST, "The row is no JSON object; give one object a line.")


def _original(line: JsonObject, options: JobOptions) -> JsonObject:
    """The row inside a reject line, through rejects of rejects."""
    value = line
    while reject_format.is_reject_line(value):
        try:
            data = reject_format.original_row(value)
        except (ValueError, RecursionError):
            data = None
        found = _object(data, options) if isinstance(data, bytes | dict) else None
        if found is None:
            raise RowError(
                ErrorCode.INVALID_REQUEST,
                "This line of a rejects file carries no request: the row was too long or no text, "
                "so only its place and its first bytes were kept. Repair it where it came from.",
                parameter=reject_format.REQUEST,
            )
        value = found
    return value


def _again(line: JsonObject, rejected: str, own: str | None) -> tuple[str, int | None]:
    """The id of a row that is run again, and which of its prompts alone to make.

    Of a row with several prompts, the reject of one has its number in the id (`rejected`); the
    reject of the whole row has the row's id.
    """
    index = line.get(reject_format.PROMPT_INDEX)
    base = own or rejected.removesuffix(f"-{index}")
    only = isinstance(index, int) and index >= 0 and rejected == f"{base}-{index}"
    return base, index if only and isinstance(index, int) else None


def _own_id(value: JsonObject, options: JobOptions) -> str | None:
    """The id that a row gives itself; a named id column comes first."""
    names = _ID_KEYS if options.id_column is None else (options.id_column, *_ID_KEYS)
    for name in names:
        found = _scalar_id(value.get(name))
        if found is not None:
            return found
    return None


def _scalar_id(value: Json) -> str | None:
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _parsed(value: JsonObject, options: JobOptions) -> ParsedBody:
    """The document or the body in a row."""
    if options.text_column is not None:
        if options.text_column in value:
            return _document(value, options.text_column, options.id_column)
        if _REQUEST_KEYS.isdisjoint(value):
            raise RowError(
                ErrorCode.INVALID_REQUEST,
                f"The row has no key {options.text_column!r}, which --text-column names. "
                "Give it one, or name another key.",
                parameter=options.text_column,
            )
    body, url = _opened(value, options.id_column)
    if is_deepseek(options.tokenizer_mode):
        api = api_of(body, url, options.task)
        if api is not None:
            return parse_api_body(body, api)
    return parse_body(body, endpoint_of(body, url, options.task))


def _document(value: JsonObject, text_column: str, id_column: str | None) -> ParsedBody:
    text = value[text_column]
    if not isinstance(text, str):
        raise RowError(
            ErrorCode.INVALID_REQUEST,
            f"{text_column} must be a string: it is the text that --text-column names.",
            parameter=text_column,
        )
    used = {text_column, id_column, *_ID_KEYS}
    kept: JsonObject = {
        name: item for name, item in value.items() if name not in used and item is not None
    }
    return ParsedBody(
        endpoint=Endpoint.DOCUMENT, prompts=[TextPrompt(text)], budget=Budget(), passthrough=kept
    )


def _opened(value: JsonObject, id_column: str | None) -> tuple[JsonObject, str | None]:
    """The request body in a row, and the url it is for where the row is an envelope."""
    if "body" not in value or not _PROMPT_KEYS.isdisjoint(value):
        if id_column in value:
            value = {name: item for name, item in value.items() if name != id_column}
        return value, None
    body = value["body"]
    # OpenAI's name for it, and the one of recorded HTTP traffic.
    url = value.get("url", value.get("uri"))
    if not isinstance(body, dict):
        raise RowError(
            ErrorCode.INVALID_REQUEST,
            "body must be an object: the request that the batch line carries.",
            parameter="body",
        )
    if url is not None and not isinstance(url, str):
        raise RowError(
            ErrorCode.INVALID_REQUEST, "url must be a string: an endpoint.", parameter="url"
        )
    return body, url

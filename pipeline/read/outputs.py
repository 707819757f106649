"""Engine outputs from Parquet: one answer a row.

    custom_id (or id)         which row it answers; else made from its place
    output_token_ids          the ids; other common names are known, --ids-column names any
    logprobs                  a number an id, or {logprob, top_logprobs: [{token_id, logprob}]}
    finish_reason             as the engine named it
    num_tokens, max_tokens, request     of the token row that it answers

All but the ids may be missing; an engine that keeps the columns of its input carries the last ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from promptmill.pipeline.read.arrow_source import arrow_source
from promptmill.pipeline.storage.place import Place, place_of, sizes
from promptmill.schemas.errors import ErrorCode, JobError, RowError, Stage
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.outputs import EngineOutput, TokenLogprob

IDS_COLUMNS: Final = (
    "output_token_ids",
    "generated_token_ids",
    "completion_token_ids",
    "generated_tokens",
    "response_token_ids",
    "token_ids",
)
"""Names under which engines and their wrappers write output ids."""

_NAMES: Final = ("custom_id", "id")
_OTHERS: Final = (*_NAMES, "logprobs", "finish_reason", "num_tokens", "max_tokens", "request")
_BATCH: Final = 1024
_MAKE_PARQUET: Final = (
    "JSON lines with custom_id and token_ids become Parquet by pyarrow.parquet.write_table("
    "pyarrow.json.read_json(FILE), NEW)."
)


def read_outputs(
    inputs: Sequence[str], ids_column: str | None
) -> Iterator[EngineOutput | tuple[str, RowError]]:
    """The outputs of some files, in order; a row that cannot be read is its id and why.

    Args:
        inputs: Parquet files or folders of them.
        ids_column: where the ids are; None: the first of `IDS_COLUMNS` that a file has.

    Raises:
        JobError: a file is missing or no Parquet, or has no such column.
    """
    for path in _files(inputs):
        try:
            file = pq.ParquetFile(arrow_source(path))
            column = _ids_column(path, file.schema_arrow, ids_column)
            wanted = [name for name in (column, *_OTHERS) if name in file.schema_arrow.names]
            row = 0
            for batch in file.iter_batches(batch_size=_BATCH, columns=wanted):
                for values in batch.to_pylist():
                    yield _output(values, column, f"{path.name}:{row}")
                    row += 1
        except (OSError, pa.ArrowException) as error:
            said = str(error).partition("\n")[0].rstrip(".").partition(". Either")[0]
            raise JobError(f"{path} cannot be read as Parquet: {said}. {_MAKE_PARQUET}") from error


def _files(inputs: Sequence[str]) -> Iterator[Place]:
    for name in inputs:
        path = place_of(name)
        if not path.exists():
            raise JobError(f"-i {name}: there is no such file or folder. Check the path.")
        found = _parquet_in(path) if path.is_dir() else [path]
        if not found:
            raise JobError(
                f"-i {name}: the folder holds no Parquet file. Name where the engine wrote its ids."
            )
        yield from found


def _parquet_in(folder: Place) -> list[Place]:
    names = (name for name in sizes(folder) if name[0] not in "_.")
    return [folder / name for name in sorted(names) if name.endswith(".parquet")]


def _ids_column(path: Place, schema: pa.Schema, asked: str | None) -> str:
    names = (asked,) if asked is not None else IDS_COLUMNS
    found = next((name for name in names if name in schema.names), None)
    if found is None:
        raise JobError(
            f"{path} has no column {' or '.join(names)} of output ids; it has "
            f"{', '.join(schema.names)}. Name the right one with --ids-column."
        )
    kind = schema.field(found).type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not is_list or not pa.types.is_integer(kind.value_type):
        raise JobError(
            f"{path}: column {found} is {kind}, and ids are a list of integers a row. Name the "
            "right column with --ids-column."
        )
    return found


def _output(
    values: Mapping[str, object], column: str, place: str
) -> EngineOutput | tuple[str, RowError]:
    names = (values[name] for name in _NAMES if values.get(name) is not None)
    custom_id = str(next(names, place))
    ids, reason, tokens = values[column], values.get("finish_reason"), values.get("num_tokens")
    limit = values.get("max_tokens")
    try:
        if not isinstance(ids, list) or None in ids:
            raise _bad(column, "must be a list of ids without nulls")
        return EngineOutput(
            custom_id=custom_id,
            token_ids=ids,
            logprobs=_logprobs(values.get("logprobs")),
            finish_reason=reason if isinstance(reason, str) else None,
            prompt_tokens=tokens if isinstance(tokens, int) else None,
            request=_request(values.get("request"))
            | ({"max_tokens": limit} if isinstance(limit, int) else {}),
            has_request=values.get("request") is not None,
        )
    except RowError as error:
        return custom_id, error


def _logprobs(value: object) -> list[TokenLogprob] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise _bad("logprobs", "must be a list with one entry an id")
    return [_logprob(item) for item in value]


def _logprob(item: object) -> TokenLogprob:
    if isinstance(item, float | int):
        return TokenLogprob(float(item))
    if isinstance(item, dict) and isinstance(item.get("logprob"), float | int):
        top = [entry for entry in item.get("top_logprobs") or () if isinstance(entry, dict)]
        pairs = ((entry.get("token_id"), entry.get("logprob")) for entry in top)
        found = ((i, p) for i, p in pairs if isinstance(i, int) and isinstance(p, float | int))
        return TokenLogprob(float(item["logprob"]), tuple((i, float(p)) for i, p in found))
    raise _bad("logprobs", "must hold numbers, or {logprob, top_logprobs} objects")


def _request(value: object) -> JsonObject:
    """The request column of our own parts: JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise _bad("request", "must be JSON, as promptmill writes it") from None
    return value if isinstance(value, dict) else {}


def _bad(column: str, problem: str) -> RowError:
    return RowError(
        ErrorCode.INVALID_REQUEST, f"{column} {problem}.", parameter=column, stage=Stage.READ
    )

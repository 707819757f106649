"""Arrow values as JSON values, column by column, without pandas.

* A null is an absent key, in the row and in every struct: columnar files give all rows the same
  keys, so a null says nothing that a JSON row would have said. In lists and maps a null stays.
* JSON text in string columns stays text.
* Binary values stay bytes: the one thing here that is no JSON.
* Decimals become numbers; dates, times, UUIDs and whatever else JSON has no type for, text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from promptmill.pipeline.read.lines import MAX_LINE_BYTES
from promptmill.pipeline.read.sizes import CHUNK_BYTES, row_sizes
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.json_types import Json, JsonObject

_Value = TypeVar("_Value")

_LISTS: Final[tuple[Callable[[pa.DataType], bool], ...]] = (
    types.is_list,
    types.is_large_list,
    types.is_fixed_size_list,
    types.is_list_view,
    types.is_large_list_view,
)
_PLAIN: Final[tuple[Callable[[pa.DataType], bool], ...]] = (
    types.is_null,
    types.is_boolean,
    types.is_integer,
    types.is_floating,
    types.is_string,
    types.is_large_string,
    types.is_string_view,
    types.is_binary,
    types.is_large_binary,
    types.is_fixed_size_binary,
    types.is_binary_view,
)
"""Types whose Python values are JSON values, or bytes."""


def records(batch: pa.RecordBatch) -> Iterator[JsonObject | RowError]:
    """The rows of a batch, at most `CHUNK_BYTES` of them decoded at once.

    A row whose values cannot be decoded (text that is not UTF-8, offsets that point outside), or
    would take too much memory, comes as the error that says so; the others are not affected.
    """
    given = 0
    try:
        batch.validate(full=True)
        for rows, size in _chunks(row_sizes(batch)):
            chunk = batch.slice(given, rows)
            decoded = [_too_large(size)] if size > MAX_LINE_BYTES else _decoded(chunk)
            given += rows
            yield from decoded
    except (ValueError, MemoryError, pa.ArrowException) as error:
        if batch.num_rows > 1:
            for index in range(given, batch.num_rows):
                yield from records(batch.slice(index, 1))
            return
        yield RowError(
            _code(error),
            f"a value of the row cannot be decoded: {error}. Write the file again from its source.",
            stage=Stage.READ,
        )


def _code(error: Exception) -> ErrorCode:
    if isinstance(error, MemoryError):
        return ErrorCode.MEMORY_EXCEEDED
    text = isinstance(error, UnicodeDecodeError) or "UTF8" in str(error)
    return ErrorCode.INVALID_UTF8 if text else ErrorCode.UNREADABLE_INPUT


def _chunks(sizes: npt.NDArray[np.float64]) -> Iterator[tuple[int, float]]:
    """How many rows to decode together, and their size; one that is too large stands alone."""
    if (whole := float(sizes.sum())) <= CHUNK_BYTES:
        yield len(sizes), whole
        return
    rows, held = 0, 0.0
    for size in sizes.tolist():
        if rows and held + size > CHUNK_BYTES:
            yield rows, held
            rows, held = 0, 0.0
        rows, held = rows + 1, held + size
    yield rows, held


def _too_large(size: float) -> RowError:
    return RowError(
        ErrorCode.LINE_TOO_LONG,
        f"the row takes about {size:.0f} bytes when it is unpacked; the limit is "
        f"{MAX_LINE_BYTES}. Split the row, or name media by path or URL instead of carrying them "
        "in it.",
        value=int(size),
        stage=Stage.READ,
    )


def _decoded(batch: pa.RecordBatch) -> list[JsonObject]:
    columns = [_values(column) for column in batch.columns]
    return list(_objects(batch.schema.names, columns, batch.num_rows))


def _objects(names: list[str], columns: list[list[Json]], length: int) -> Iterator[JsonObject]:
    if not columns:
        yield from ({} for _ in range(length))
    for values in zip(*columns, strict=True):
        yield {k: v for k, v in zip(names, values, strict=True) if v is not None}


def _values(array: pa.Array) -> list[Json]:
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType) and not isinstance(kind, pa.UuidType):
        return _values(array.storage)
    if types.is_dictionary(kind):
        return _values(array.dictionary_decode())
    if types.is_run_end_encoded(kind):
        return _values(pc.run_end_decode(array))
    if types.is_struct(kind):
        return _structs(array)
    if types.is_map(kind):
        return _maps(array)
    if any(is_kind(kind) for is_kind in _LISTS):
        return list(_parts(array, _values(array.flatten())))
    if types.is_decimal(kind):
        number = int if kind.scale <= 0 else float
        return [None if value is None else number(value) for value in array.to_pylist()]
    if types.is_temporal(kind) and not types.is_interval(kind):
        array = array.cast(pa.string())  # to_pylist needs pandas for nanoseconds
    values: list[Json] = array.to_pylist()
    if any(is_kind(array.type) for is_kind in _PLAIN):
        return values
    return [None if value is None else str(value) for value in values]


def _structs(array: pa.StructArray) -> list[Json]:
    names = [field.name for field in array.type]
    objects = _objects(names, [_values(child) for child in array.flatten()], len(array))
    present = array.is_valid().to_pylist()
    return [value if there else None for value, there in zip(objects, present, strict=True)]


def _maps(array: pa.MapArray) -> list[Json]:
    entry = pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])
    lists = array.cast(pa.list_(entry))  # a map has no flatten() that heeds slices
    keys, values = (_values(part) for part in lists.flatten().flatten())
    pairs = list(zip(map(str, keys), values, strict=True))
    return [None if part is None else dict(part) for part in _parts(lists, pairs)]


def _parts(lists: pa.ListArray, values: list[_Value]) -> Iterator[list[_Value] | None]:
    """Cut the flattened values into the lists they came from."""
    start = 0
    for length in pc.list_value_length(lists).to_pylist():
        if length is None:
            yield None
        else:
            yield values[start : start + length]
            start += length

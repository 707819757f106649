"""Token rows to Arrow record batches. What is parallel to ids never becomes Python objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias, cast

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from promptmill.pipeline.labels import labels_of
from promptmill.schemas.columns import NO_LOSS, Column, arrow_schema, columns
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.media import MediaSpan
from promptmill.schemas.options import JobOptions
from promptmill.schemas.request import Ids, TokenRow

Parallel: TypeAlias = "npt.NDArray[np.int32] | npt.NDArray[np.int8]"
"""Ids, offsets, mask or labels of a row: an entry, or a pair, for each id."""


@dataclass(frozen=True, slots=True)
class TokenValues:
    """One token column of some rows: what its lists hold, without a border between them."""

    flat: Parallel
    """Shape (n,), or (n, 2) for pairs."""
    sizes: npt.NDArray[np.int64]
    """Entries of each row; 0 where it has none."""
    absent: npt.NDArray[np.bool_]
    """Which rows have null instead of a list."""


def record_batch(
    rows: Sequence[TokenRow], options: JobOptions, *, token_columns: bool = True
) -> pa.RecordBatch:
    """The rows as one record batch, with the columns that the options ask for.

    Where a prompt is padded, offsets and mask get (0, 0) and 0 for the padding, as Hugging Face
    tokenizers have it, so that there is an entry for each id.

    Args:
        rows: any number of them.
        options: the job.
        token_columns: whether ids and what is parallel to them are among the columns.

    Raises:
        RowError: a string of a row is not Unicode text. Parsing refuses such rows; should one
            come through, it is named here.
    """
    chosen = [c for c in columns(options) if token_columns or not is_token_column(c)]
    try:
        arrays = _arrays(rows, chosen)
    except UnicodeEncodeError:
        raise _not_text(rows, chosen) from None
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(options, chosen))


def is_token_column(column: Column) -> bool:
    """Whether it has an entry, or a pair, for each id."""
    return column.name in _PARALLEL


def token_values(rows: Sequence[TokenRow], column: Column, ids: Sequence[int]) -> TokenValues:
    """What a token column holds for these rows, without an object per token.

    Args:
        rows: any number of them.
        column: see `is_token_column`.
        ids: how many each of the rows has.

    Raises:
        TypeError: values that the column's type does not hold.
        ValueError: more of them than ids.
    """
    part_of = _PARALLEL[column.name]
    parts = [part_of(row) for row in rows]
    there = [part for part in parts if part is not None]
    sizes = np.array(ids, np.int64)
    absent = np.zeros(len(rows), np.bool_)
    if len(there) < len(parts):
        absent = np.array([part is None for part in parts])
        sizes[absent] = 0
    whole = list(map(len, there)) == sizes[~absent].tolist()
    flat = _joined(there, column) if whole else _padded(parts, sizes, column)
    return TokenValues(flat, sizes, absent)


def _joined(parts: Sequence[Parallel], column: Column) -> Parallel:
    nothing = _zeros(0, column)
    return cast(Parallel, np.concatenate([nothing, *parts], dtype=nothing.dtype, casting="equiv"))


def _padded(
    parts: Sequence[Parallel | None], sizes: npt.NDArray[np.int64], column: Column
) -> Parallel:
    splits = np.cumsum([0, *sizes]).tolist()
    flat = _zeros(splits[-1], column)
    for (start, stop), part in zip(pairwise(splits), parts, strict=True):
        if part is not None:
            np.copyto(flat[start:stop][: len(part)], part, casting="equiv")
    return flat


def _zeros(size: int, column: Column) -> Parallel:
    kind = column.type.value_type
    pairs = pa.types.is_fixed_size_list(kind)
    leaf = kind.value_type if pairs else kind
    zeros: Parallel = np.zeros((size, 2) if pairs else size, leaf.to_pandas_dtype())
    return zeros


def _arrays(rows: Sequence[TokenRow], chosen: Sequence[Column]) -> list[pa.Array]:
    return [
        _lists(rows, column)
        if is_token_column(column)
        else pa.array([_VALUES[column.name](row) for row in rows], column.type)
        for column in chosen
    ]


def _lists(rows: Sequence[TokenRow], column: Column) -> pa.Array:
    """A list column of flat buffers; null where a row has no such part."""
    found = token_values(rows, column, [len(row.ids) for row in rows])
    values = pa.array(found.flat.reshape(-1))
    if found.flat.ndim == 2:
        values = pa.FixedSizeListArray.from_arrays(values, type=column.type.value_type)
    splits = pa.array(np.cumsum([0, *found.sizes]), pa.int32())
    mask = pa.array(found.absent) if found.absent.any() else None
    return pa.ListArray.from_arrays(splits, values, type=column.type, mask=mask)


def _not_text(rows: Sequence[TokenRow], chosen: Sequence[Column]) -> RowError:
    for row in rows:
        try:
            _arrays([row], chosen)
        except UnicodeEncodeError:
            break
    place = row.request.place
    return RowError(
        ErrorCode.LONE_SURROGATE,
        f"Row {place.row_index} of {place.source!a} holds a lone surrogate, which no file can "
        "store as text. Remove it from the row.",
        stage=Stage.WRITE,
    )


def _span(span: MediaSpan) -> dict[str, object]:
    return {
        "modality": span.modality,
        "offset": span.offset,
        "length": span.length,
        "index": span.index,
        "hash": span.hash,
        "grid": span.grid,
        "embed_runs": [{"offset": start, "length": size} for start, size in span.embed_runs],
    }


def _labels(row: TokenRow) -> Ids:
    labels = labels_of(row.ids, row.mask, ((span.offset, span.length) for span in row.spans))
    if row.offsets is not None:
        labels[len(row.offsets) :] = NO_LOSS  # padding, which has no mask to tell it either
    return labels


_PARALLEL: Final[dict[str, Callable[[TokenRow], Parallel | None]]] = {
    "prompt_token_ids": lambda row: row.ids,
    "prompt_token_offsets": lambda row: row.offsets,
    "assistant_mask": lambda row: row.mask,
    "labels": _labels,
}

_VALUES: Final[dict[str, Callable[[TokenRow], object]]] = {
    "custom_id": lambda row: row.request.custom_id,
    "source": lambda row: row.request.place.source,
    "row_index": lambda row: row.request.place.row_index,
    "prompt_index": lambda row: row.request.place.prompt_index,
    "prompt": lambda row: row.text,
    "num_tokens": lambda row: len(row.ids),
    "original_num_tokens": lambda row: row.original_num_tokens,
    "num_chars": lambda row: None if row.text is None else len(row.text),
    "truncated": lambda row: row.truncated_left > 0 or row.truncated_right > 0,
    "truncated_left": lambda row: row.truncated_left,
    "truncated_right": lambda row: row.truncated_right,
    "max_tokens": lambda row: row.max_tokens,
    "mm_placeholders": lambda row: [_span(span) for span in row.spans],
    # In the row's own key order; NaN, which JSON cannot say, becomes null.
    "request": lambda row: msgspec.json.encode(row.request.passthrough),
    "warnings": lambda row: row.warnings,
}

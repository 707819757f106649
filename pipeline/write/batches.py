"""Token rows to Arrow record batches. What is parallel to ids never becomes Python objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from promptmill.pipeline.labels import labels_of
from promptmill.schemas.columns import NO_LOSS, arrow_schema, columns
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.media import MediaSpan
from promptmill.schemas.options import JobOptions
from promptmill.schemas.request import Ids, TokenRow

Parallel: TypeAlias = "npt.NDArray[np.int32] | npt.NDArray[np.int8]"
"""Ids, offsets, mask or labels of a row: an entry, or a pair, for each id."""


class BatchBuilder:
    """Builds record batches with the columns that the options of a job ask for."""

    def __init__(self, options: JobOptions) -> None:
        self._columns = columns(options)
        self._schema = arrow_schema(options)

    def build(self, rows: Sequence[TokenRow]) -> pa.RecordBatch:
        """The rows as one record batch.

        Where a prompt is padded, offsets and mask get (0, 0) and 0 for the padding, as Hugging
        Face tokenizers have it, so that there is an entry for each id.

        Raises:
            RowError: a string of a row is not Unicode text. Parsing refuses such rows; should one
                come through, it is named here.
        """
        try:
            arrays = self._arrays(rows)
        except UnicodeEncodeError:
            raise self._not_text(rows) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _arrays(self, rows: Sequence[TokenRow]) -> list[pa.Array]:
        return [
            _lists(rows, column.type, _PARALLEL[column.name])
            if column.name in _PARALLEL
            else pa.array([_VALUES[column.name](row) for row in rows], column.type)
            for column in self._columns
        ]

    def _not_text(self, rows: Sequence[TokenRow]) -> RowError:
        for row in rows:
            try:
                self._arrays([row])
            except UnicodeEncodeError:
                break
        place = row.request.place
        return RowError(
            ErrorCode.LONE_SURROGATE,
            f"Row {place.row_index} of {place.source!a} holds a lone surrogate, which no file can "
            "store as text. Remove it from the row.",
            stage=Stage.WRITE,
        )


def _lists(
    rows: Sequence[TokenRow], kind: pa.DataType, part_of: Callable[[TokenRow], Parallel | None]
) -> pa.Array:
    """A list column of flat buffers; null where a row has no such part."""
    parts = [part_of(row) for row in rows]
    sizes = np.array([len(row.ids) for row in rows], np.int64)
    absent = np.array([part is None for part in parts], np.bool_)
    splits = np.concatenate([[0], np.cumsum(np.where(absent, 0, sizes))])
    pairs = pa.types.is_fixed_size_list(kind.value_type)
    leaf = kind.value_type.value_type if pairs else kind.value_type
    there = [part for part in parts if part is not None]
    if there and [len(part) for part in there] == sizes[~absent].tolist():
        flat = np.concatenate(there, dtype=leaf.to_pandas_dtype(), casting="equiv")
    else:  # padding, or nothing at all
        flat = np.zeros((splits[-1], 2) if pairs else splits[-1], leaf.to_pandas_dtype())
        for (start, stop), part in zip(pairwise(splits.tolist()), parts, strict=True):
            if part is not None:
                np.copyto(flat[start:stop][: len(part)], part, casting="equiv")
    values = pa.array(flat.reshape(-1))
    if pairs:
        values = pa.FixedSizeListArray.from_arrays(values, type=kind.value_type)
    mask = pa.array(absent) if absent.any() else None
    return pa.ListArray.from_arrays(pa.array(splits, pa.int32()), values, type=kind, mask=mask)


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

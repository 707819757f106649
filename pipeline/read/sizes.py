"""How much the rows of a record batch hold, before any of it is decoded.

What Arrow stores once may stand in any number of rows: a dictionary's value, a run, a view. So a
small file may be large in Python, and nothing but a sum over what each row names tells.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

CHUNK_BYTES: Final = 8 << 20
"""What is turned into Python objects at once, about."""
VALUE_BYTES: Final = 8
"""Of a value of no length: what a Python list takes for it, at least."""

_Sizes: TypeAlias = npt.NDArray[np.float64]  # integers would run over where lists of views nest


def row_sizes(batch: pa.RecordBatch) -> npt.NDArray[np.float64]:
    """About how many bytes each row of a batch takes when it is decoded, shape (rows,).

    Args:
        batch: validated: its offsets and indices are followed.
    """
    return sum((_sizes(column) for column in batch.columns), start=np.zeros(batch.num_rows))


def _sizes(array: pa.Array) -> _Sizes:
    kind = array.type
    if (size := _fixed_size(kind)) is not None:
        return np.full(len(array), float(size))
    if isinstance(kind, pa.BaseExtensionType):
        return _sizes(array.storage)
    if types.is_dictionary(kind):
        return _named(_sizes(array.dictionary), array.indices.fill_null(0))
    if types.is_run_end_encoded(kind):
        places = np.arange(array.offset, array.offset + len(array))
        runs = np.searchsorted(np.asarray(array.run_ends), places, side="right")
        return _named(_sizes(array.values), runs)
    if types.is_struct(kind):
        fields = (_sizes(array.field(i)) for i in range(kind.num_fields))
        return sum(fields, start=np.full(len(array), float(VALUE_BYTES)))
    if types.is_fixed_size_list(kind):
        starts = (array.offset + np.arange(len(array))) * kind.list_size
        return _sums(array, (array.values,), starts, starts + kind.list_size)
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        starts = np.asarray(array.offsets)
        return _sums(array, (array.values,), starts, starts + np.asarray(array.sizes))
    if types.is_map(kind) or types.is_list(kind) or types.is_large_list(kind):
        children = (array.keys, array.items) if types.is_map(kind) else (array.values,)
        borders = np.asarray(array.offsets)
        return _sums(array, children, borders[:-1], borders[1:])
    return VALUE_BYTES + _lengths(array)


def _fixed_size(kind: pa.DataType) -> int | None:
    """Bytes of a value where all of a type take the same."""
    if types.is_fixed_size_binary(kind):
        return VALUE_BYTES + int(kind.byte_width)
    plain = types.is_primitive(kind) or types.is_decimal(kind) or types.is_null(kind)
    return VALUE_BYTES if plain else None


def _named(values: _Sizes, indices: npt.ArrayLike) -> _Sizes:
    """Of values that are named by number, any of them any number of times."""
    found: _Sizes = np.append(values, 0.0)[np.asarray(indices)]
    return found


def _sums(
    array: pa.Array,
    children: tuple[pa.Array, ...],
    starts: npt.NDArray[np.int_],
    stops: npt.NDArray[np.int_],
) -> _Sizes:
    """Of lists: what the values between their borders take; those of a null are not decoded."""
    held = np.full(len(array), float(VALUE_BYTES))
    there = np.asarray(array.is_valid())
    starts, stops = starts[there], stops[there]
    if not len(starts):
        return held
    for child in children:
        if (size := _fixed_size(child.type)) is not None:
            held[there] += (stops - starts) * float(size)
            continue
        first, last = int(starts.min()), int(stops.max())
        up_to = np.concatenate(([0.0], np.cumsum(_sizes(child.slice(first, last - first)))))
        held[there] += up_to[stops - first] - up_to[starts - first]
    return held


def _lengths(array: pa.Array) -> _Sizes:
    """Of text and bytes; of what may hold anything, all that the array has for each value."""
    kind = array.type
    if types.is_string_view(kind) or types.is_binary_view(kind):
        views = np.frombuffer(array.buffers()[1], np.int32)  # 16 bytes each, the length in front
        lengths = views[4 * array.offset :: 4][: len(array)]
        return np.where(np.asarray(array.is_valid()), lengths, 0).astype(np.float64)
    if types.is_union(kind):
        return np.full(len(array), float(array.get_total_buffer_size()))
    return np.asarray(pc.binary_length(array).fill_null(0), np.float64)

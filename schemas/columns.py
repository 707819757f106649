"""The columns of the token rows: the only place that knows them.

    custom_id, source, row_index, prompt_index        which prompt it is
    prompt_token_ids, prompt_token_offsets, prompt    what it became
    num_tokens, original_num_tokens, num_chars, truncated, truncated_left, truncated_right
    max_tokens, mm_placeholders, assistant_mask, labels, request, warnings

Which of them a run writes follows from its options alone, so that all of its parts have one schema.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import pyarrow as pa

from promptmill.schemas.options import ColumnNames, JobOptions, Task

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Column:
    """One column and how Parquet stores it."""

    name: str
    """As vLLM has it, where it has it."""
    type: pa.DataType
    nullable: bool = False
    hf_name: str | None = None
    """As Hugging Face libraries have it, where that differs."""
    encoding: str | None = None
    """Parquet encoding of the (only) leaf; None: a dictionary, for values that repeat."""
    statistics: bool = False
    """Whether row groups say its smallest and largest value, for readers that filter."""

    def name_in(self, dialect: ColumnNames) -> str:
        """Its name in a file that speaks this dialect."""
        return self.hf_name if dialect is ColumnNames.HF and self.hf_name else self.name

    def leaves(self, dialect: ColumnNames) -> tuple[str, ...]:
        """The Parquet paths of its leaves."""
        return tuple(_leaves(self.name_in(dialect), self.type))


def _list(element: pa.DataType, size: int = -1) -> pa.DataType:
    return pa.list_(pa.field("element", element, nullable=False), size)


def _struct(*nullable: str, **types: pa.DataType) -> pa.DataType:
    return pa.struct(
        pa.field(name, kind, nullable=name in nullable) for name, kind in types.items()
    )


_SPAN: Final = _struct(
    "grid",
    modality=pa.string(),
    offset=pa.int32(),
    length=pa.int32(),
    index=pa.int32(),
    hash=pa.string(),
    grid=_list(pa.int32()),
    embed_runs=_list(_struct(offset=pa.int32(), length=pa.int32())),
)

# Pairs as lists, not structs: readers get [start, end], and interleaved starts and ends pack
# tighter than two columns do (infra/bench/offsets_layout.py).
_PAIR: Final = _list(pa.int32(), 2)

_DELTA: Final = "DELTA_BINARY_PACKED"

NO_LOSS: Final = -100
"""The label that no loss is taken on: what PyTorch's cross entropy ignores by default."""

COLUMNS: Final = (
    Column("custom_id", pa.string(), encoding="PLAIN", statistics=True),
    Column("source", pa.string(), statistics=True),
    Column("row_index", pa.int64(), encoding=_DELTA, statistics=True),
    Column("prompt_index", pa.int32(), statistics=True),
    Column(
        "prompt_token_ids",
        _list(pa.int32()),
        hf_name="input_ids",
        encoding="BYTE_STREAM_SPLIT",
    ),
    Column(
        "prompt_token_offsets",
        _list(_PAIR),
        nullable=True,
        hf_name="offset_mapping",
        encoding=_DELTA,
    ),
    Column("prompt", pa.string(), nullable=True, hf_name="text", encoding="PLAIN"),
    Column("num_tokens", pa.int32(), hf_name="length", encoding=_DELTA, statistics=True),
    Column("original_num_tokens", pa.int32(), encoding=_DELTA, statistics=True),
    Column("num_chars", pa.int64(), nullable=True, encoding=_DELTA, statistics=True),
    Column("truncated", pa.bool_(), encoding="PLAIN", statistics=True),
    Column("truncated_left", pa.int32(), statistics=True),
    Column("truncated_right", pa.int32(), statistics=True),
    Column("max_tokens", pa.int32(), nullable=True, encoding=_DELTA, statistics=True),
    Column("mm_placeholders", _list(_SPAN)),
    Column(
        "assistant_mask",
        _list(pa.int8()),
        nullable=True,
        hf_name="assistant_masks",
        encoding=_DELTA,
    ),
    Column("labels", _list(pa.int32()), encoding="BYTE_STREAM_SPLIT"),
    Column("request", pa.string()),
    Column("warnings", _list(pa.string())),
)
"""All columns, in their order, under vLLM's names."""


def columns(options: JobOptions) -> tuple[Column, ...]:
    """The columns that a run writes, in their order."""
    wanted = {
        "prompt": options.with_text,
        "prompt_token_offsets": options.with_offsets,
        "assistant_mask": options.mask_wanted,
        "labels": options.columns is ColumnNames.HF and options.task is not Task.POOLING,
    }
    return tuple(column for column in COLUMNS if wanted.get(column.name, True))


def arrow_schema(options: JobOptions) -> pa.Schema:
    """The schema of every part of a run, without its metadata."""
    return pa.schema(
        pa.field(column.name_in(options.columns), column.type, nullable=column.nullable)
        for column in columns(options)
    )


def stored_name(name: str, names: Collection[str]) -> str | None:
    """What a file with these columns calls a column, named as vLLM names it; None: it has none."""
    column = next(column for column in COLUMNS if column.name == name)
    return next((name for name in (column.hf_name, column.name) if name in names), None)


def with_vllm_names(row: Mapping[str, T]) -> dict[str, T]:
    """A row read back, its columns named as vLLM names them, whichever names its file has."""
    names = {column.hf_name: column.name for column in COLUMNS if column.hf_name}
    return {names.get(key, key): value for key, value in row.items()}


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path

"""Token rows as a data set folder that Hugging Face's `datasets.load_from_disk` reads.

data-00000-of-00002.arrow    Arrow streams, one a part
state.json                   which files there are, in order
dataset_info.json            nothing of its own: types come from the streams
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from promptmill.pipeline.read.finished import (
    LABEL_COLUMNS,
    ids_and_labels,
    part_batches,
    part_schema,
)
from promptmill.schemas.columns import COLUMNS, Column, stored_name
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.options import ColumnNames


def write_saved_set(
    folder: Path, parts: Sequence[Path], fingerprint: str, *, labels: bool
) -> tuple[int, int]:
    """Write all parts as one data set, under Hugging Face's names, batch by batch.

    Args:
        folder: an empty folder.
        parts: of one run, in order.
        fingerprint: names the content, for caches of what is made of it.
        labels: whether to make labels where the run stored none.

    Returns:
        Rows and ids written.

    Raises:
        JobError: a part cannot be read.
    """
    rows = tokens = 0
    names = [f"data-{n:05}-of-{len(parts):05}.arrow" for n in range(len(parts))]
    for name, part in zip(names, parts, strict=True):
        chosen = _columns(part, labels=labels)
        schema = pa.schema(
            pa.field(column.name_in(ColumnNames.HF), column.type) for column in chosen
        )
        stored = [column.name for column in COLUMNS]
        with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, schema) as out:
            for batch in part_batches(part, stored):
                out.write_batch(pa.RecordBatch.from_arrays(_arrays(batch, chosen), schema=schema))
                rows += len(batch)
                tokens += len(batch.column("prompt_token_ids").flatten())
    _describe(folder, names, fingerprint)
    return rows, tokens


def _columns(part: Path, *, labels: bool) -> list[Column]:
    there = part_schema(part).names
    return [
        column
        for column in COLUMNS
        if stored_name(column.name, there) or (labels and column.name == "labels")
    ]


def _arrays(batch: pa.RecordBatch, chosen: Sequence[Column]) -> list[pa.Array]:
    return [
        batch.column(column.name)
        if column.name in batch.schema.names
        else _labels(batch, column.type)
        for column in chosen
    ]


def _labels(batch: pa.RecordBatch, kind: pa.DataType) -> pa.Array:
    there = [name for name in LABEL_COLUMNS if name in batch.schema.names]
    _, labels = ids_and_labels(batch.select(there))
    splits = np.cumsum([0, *map(len, labels)]).astype(np.int32)
    flat = np.concatenate([*labels, np.empty(0, np.int32)])
    return pa.ListArray.from_arrays(splits, pa.array(flat), type=kind)


def _describe(folder: Path, names: Sequence[str], fingerprint: str) -> None:
    state: JsonObject = {
        "_data_files": [{"filename": name} for name in names],
        "_fingerprint": fingerprint,
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    for name, content in {"state.json": state, "dataset_info.json": {}}.items():
        (folder / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

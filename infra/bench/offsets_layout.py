"""Which layout of token offsets is smallest and fastest in Parquet, on real rows.

    python infra/bench/offsets_layout.py --data chat.jsonl --model DIR [--rows 4000]

Prints, per layout and encoding, the bytes per token of the column(s) and the CPU time of writing
and reading one file, the best of several rounds. `list<list>` is `list<fixed_size_list<int32>[2]>`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer

Array = npt.NDArray[np.int32]
ENCODINGS = ("PLAIN", "BYTE_STREAM_SPLIT", "DELTA_BINARY_PACKED")
LEAF = pa.field("element", pa.int32(), nullable=False)


def texts(path: Path, count: int) -> Iterator[str]:
    """One text a conversation: its messages, role first."""
    with path.open(encoding="utf-8") as lines:
        for line in itertools.islice(lines, count):
            turns = json.loads(line)["messages"]
            yield "\n".join(f"{turn['role']}\n{turn.get('content')}" for turn in turns)


def tokenize(model: Path, rows: list[str]) -> tuple[Array, Array, Array]:
    """Flat ids (n,), offsets (n, 2) and the list boundaries (rows + 1,)."""
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    found = tokenizer.encode_batch(rows, add_special_tokens=False)
    ids = np.concatenate([np.array(item.ids, np.int32) for item in found])
    offsets = np.concatenate([np.array(item.offsets, np.int32) for item in found])
    splits = np.cumsum([0, *(len(item.ids) for item in found)], dtype=np.int32)
    return ids, offsets, splits


def int_lists(splits: Array, values: Array) -> pa.Array:
    """A list<int32> column."""
    return pa.ListArray.from_arrays(splits, pa.array(values), type=pa.list_(LEAF))


def as_ids(ids: Array, offsets: Array, splits: Array) -> pa.Table:
    """The ids alone, for scale."""
    return pa.table({"ids": int_lists(splits, ids)})


def as_pairs(ids: Array, offsets: Array, splits: Array) -> pa.Table:
    """list<fixed_size_list<int32>[2]>"""
    pairs = pa.FixedSizeListArray.from_arrays(pa.array(offsets.reshape(-1)), type=pa.list_(LEAF, 2))
    kind = pa.list_(pa.field("element", pairs.type, nullable=False))
    return pa.table({"offsets": pa.ListArray.from_arrays(splits, pairs, type=kind)})


def as_structs(ids: Array, offsets: Array, splits: Array) -> pa.Table:
    """list<struct<start, end>>"""
    columns = [pa.array(np.ascontiguousarray(offsets[:, side])) for side in (0, 1)]
    fields = [pa.field(name, pa.int32(), nullable=False) for name in ("start", "end")]
    structs = pa.StructArray.from_arrays(columns, fields=fields)
    kind = pa.list_(pa.field("element", structs.type, nullable=False))
    return pa.table({"offsets": pa.ListArray.from_arrays(splits, structs, type=kind)})


def as_columns(ids: Array, offsets: Array, splits: Array) -> pa.Table:
    """Two list<int32> columns."""
    starts, ends = (np.ascontiguousarray(offsets[:, side]) for side in (0, 1))
    return pa.table({"starts": int_lists(splits, starts), "ends": int_lists(splits, ends)})


def leaves(table: pa.Table) -> list[str]:
    """The Parquet paths of the leaf columns."""
    with tempfile.TemporaryFile() as file:
        pq.write_table(table.slice(0, 0), file)
        schema = pq.ParquetFile(file).schema
        return [schema.column(n).path for n in range(len(schema))]


def best_of(rounds: int, work: Callable[[], object]) -> float:
    """CPU seconds of the fastest round."""
    seconds = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return min(seconds)


def measure(table: pa.Table, encoding: str, path: Path, rounds: int) -> tuple[int, float, float]:
    """Bytes of the file, CPU seconds to write and to read it."""

    def write() -> None:
        pq.write_table(
            table,
            path,
            compression="zstd",
            compression_level=1,
            use_dictionary=False,
            write_statistics=False,
            column_encoding=dict.fromkeys(leaves(table), encoding),
            row_group_size=len(table),
        )

    def read() -> None:
        pq.read_table(path, use_threads=False)

    seconds = best_of(rounds, write)
    return path.stat().st_size, seconds, best_of(rounds, read)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="JSONL with messages")
    parser.add_argument("--model", type=Path, required=True, help="folder with a tokenizer.json")
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    arrays = tokenize(args.model, list(texts(args.data, args.rows)))
    tokens = len(arrays[0])
    print(f"{args.rows} rows, {tokens:,} tokens, pyarrow {pa.__version__}, zstd level 1")
    print(f"{'layout':16}{'encoding':22}{'B/token':>9}{'write ns/token':>16}{'read ns/token':>15}")
    layouts = {
        "ids": as_ids,
        "list<list>": as_pairs,
        "list<struct>": as_structs,
        "two lists": as_columns,
    }
    with tempfile.TemporaryDirectory() as folder:
        for (name, layout), encoding in itertools.product(layouts.items(), ENCODINGS):
            size, write, read = measure(
                layout(*arrays), encoding, Path(folder) / "t.parquet", args.rounds
            )
            figures = f"{size / tokens:9.3f}{write / tokens * 1e9:16.1f}{read / tokens * 1e9:15.1f}"
            print(f"{name:16}{encoding:22}{figures}")


if __name__ == "__main__":
    main()

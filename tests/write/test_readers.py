"""What people read data sets with reads a run's folder as it is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.dataset
import pytest

from promptmill.pipeline.write.names import (
    new_attempt,
    part_name,
    receipt_name,
    rejects_name,
    temporary_name,
)
from promptmill.pipeline.write.parts import PartWriter
from promptmill.schemas.columns import arrow_schema
from promptmill.schemas.options import JobOptions
from promptmill.schemas.request import TokenRow

SIZES = [[3, 5], [], [4]]
ROWS = [size for part in SIZES for size in part]


@pytest.fixture(scope="module", params=["vllm", "hf"])
def options(request: pytest.FixtureRequest, make_options: Callable[..., JobOptions]) -> JobOptions:
    return make_options(columns=request.param, with_text=True, with_mask=True)


@pytest.fixture(scope="module")
def out(
    options: JobOptions,
    make_row: Callable[..., TokenRow],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Three parts, one of them empty and one without media, among all else a run leaves."""
    out = tmp_path_factory.mktemp("out")
    for index, sizes in enumerate(SIZES):
        path = out / part_name(index, len(SIZES), options.format)
        with PartWriter(path, options=options, metadata={"fingerprint": "f"}) as part:
            lacking = {"spans": (), "warnings": (), "max_tokens": None} if index else {}
            part.write([make_row(10 * index + n, size, **lacking) for n, size in enumerate(sizes)])
    private = out / "_promptmill"
    unfinished = temporary_name(part_name(1, 3, options.format), new_attempt())
    others = [
        "run.json",
        "report.html",
        *(f"receipts/{receipt_name(shard)}" for shard in range(len(SIZES))),
        f"rejects/{rejects_name(0)}",
    ]
    for path in [out / unfinished, *(private / name for name in others)]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")
    return out


def check(rows: list[dict[str, Any]], options: JobOptions) -> None:
    names = arrow_schema(options).names
    assert [list(row) for row in rows] == [names] * len(ROWS)
    ids, offsets = names[4:6]
    mask = next(name for name in names if name.startswith("assistant_mask"))
    assert [row["row_index"] for row in rows] == [0, 1, 20]
    for row, size in zip(rows, ROWS, strict=True):
        assert list(row[ids]) == list(range(100_000, 100_000 + size))
        assert [list(pair) for pair in row[offsets]] == [[n, n + 1] for n in range(size)]
        assert list(row[mask]) == [n % 2 for n in range(size)]
    assert rows[0]["mm_placeholders"][0]["grid"] == [1, 2, 2]
    assert rows[2]["mm_placeholders"] == []
    assert [row["max_tokens"] for row in rows] == [16, 16, None]


def test_hugging_face_datasets(out: Path, options: JobOptions, tmp_path: Path) -> None:
    import datasets  # here, because importing it takes seconds

    # Given the bare folder it takes the receipts for the data.
    loaded = datasets.load_dataset(str(out), data_files="*.parquet", cache_dir=str(tmp_path))
    assert list(loaded) == ["train"]
    check(loaded["train"].to_list(), options)


def test_pyarrow(out: Path, options: JobOptions) -> None:
    found = pyarrow.dataset.dataset(out)
    assert found.schema.equals(arrow_schema(options))
    check(found.to_table().to_pylist(), options)


@pytest.mark.parametrize("place", ["", "/*.parquet"])
def test_duckdb(out: Path, options: JobOptions, place: str) -> None:
    with duckdb.connect() as connection:
        found = connection.execute(
            "select * from read_parquet($path) order by row_index", {"path": f"{out}{place}"}
        )
        names = [column[0] for column in found.description]
        check([dict(zip(names, row, strict=True)) for row in found.fetchall()], options)


def test_polars(out: Path, options: JobOptions) -> None:
    # Given the bare folder it looks into every folder below, whatever its name.
    check(pl.read_parquet(out / "*.parquet").to_dicts(), options)
    check(pl.read_parquet(out, use_pyarrow=True).to_dicts(), options)

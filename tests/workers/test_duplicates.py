from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptmill.workers.duplicates import find_duplicates


def write(folder: Path, name: str, ids: list[str]) -> Path:
    table = pa.table({"other": list(range(len(ids))), "custom_id": pa.array(ids, pa.string())})
    path = folder / name
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    return path


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_counts_and_names(tmp_path: Path, ending: str) -> None:
    parts = [
        write(tmp_path, f"0.{ending}", ["a", "b", "c"]),
        write(tmp_path, f"1.{ending}", ["d", "b", "a"]),
        write(tmp_path, f"2.{ending}", ["a"]),
        write(tmp_path, f"3.{ending}", []),
    ]
    found = find_duplicates(parts, 7)
    assert found.count == 3
    assert sorted(found.names) == ["a", "b"]


def test_no_duplicates(tmp_path: Path) -> None:
    part = write(tmp_path, "0.parquet", ["a", "b"])
    found = find_duplicates([part], 2)
    assert (found.count, found.names) == (0, ())


@given(ids=st.lists(st.text(max_size=2), max_size=40), share=st.integers(1, 50))
def test_as_counted_directly_in_any_number_of_passes(
    tmp_path_factory: pytest.TempPathFactory, ids: list[str], share: int
) -> None:
    part = write(tmp_path_factory.mktemp("p"), "0.parquet", ids)
    found = find_duplicates([part], len(ids), most_hashes=share)
    counts = Counter(ids)
    assert found.count == len(ids) - len(counts)
    assert all(counts[name] > 1 for name in found.names)

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from promptmill.schemas.request import RawRow
from promptmill.workers.batches import batches, weight
from promptmill.workers.leases import RowRange


@given(
    sizes=st.lists(st.integers(0, 50), max_size=60),
    most_rows=st.integers(1, 10),
    most_bytes=st.integers(1, 100),
    careful=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=3),
)
def test_order_and_bounds(
    sizes: list[int], most_rows: int, most_bytes: int, careful: list[tuple[int, int]]
) -> None:
    rows = [RawRow("f", 5 + n, b"x" * size) for n, size in enumerate(sizes)]
    ranges = [RowRange(*pair) for pair in careful]
    found = list(batches(rows, ranges, most_rows=most_rows, most_bytes=most_bytes))
    assert [row for batch in found for row in batch] == rows
    for batch in found:
        assert 0 < len(batch) <= most_rows
        assert sum(weight(row.data) for row in batch[:-1]) < most_bytes
        alone = any(r.start <= row.row_index < r.stop for r in ranges for row in batch)
        assert not alone or len(batch) == 1


def test_weight_of_decoded_rows_counts_their_texts() -> None:
    assert weight({"a": ["xx", {"b": "yyy"}], "c": 1, "d": None}) == 2 + 3 + 8 + 8
    assert weight(b"abc") == 3

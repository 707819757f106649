#!/usr/bin/env python3
"""Print two rows of a finished run, the way a person would look at them.

python infra/demo/show.py OUT
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

SHOWN = ("short conversation", "row that was cut")


def main() -> None:
    """Read the folder as any Parquet reader would."""
    out = Path(sys.argv[1])
    table = ds.dataset(out).to_table()
    rows = table.to_pylist()
    whole = next(row for row in rows if not row["truncated"] and len(row["prompt"]) < 200)
    cut = next(row for row in rows if row["truncated"])
    for title, row in zip(SHOWN, (whole, cut), strict=True):
        show(title, row)
    print(f"\nAll {len(rows):,} rows: pyarrow.dataset.dataset({str(out)!r}).to_table()")


def show(title: str, row: dict[str, Any]) -> None:
    """One row, its long columns shortened."""
    print(f"\nA {title}: {row['custom_id']} ({row['source']}, row {row['row_index']})")
    for name, value in row.items():
        if name in ("custom_id", "source", "row_index", "prompt_index"):
            continue
        text = repr(value)
        print(f"  {name:22} {text if len(text) <= 88 else text[:85] + '...'}")


if __name__ == "__main__":
    main()

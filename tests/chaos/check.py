"""What must hold of an output folder, whatever happened to the run that wrote it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

Place = tuple[str, int, int]
"""`source`, `row_index`, `prompt_index`."""


PASSING: Final = {"rows_resumed", "seconds", "cpu_seconds"}
"""Of the totals."""


class Miss(Exception):
    """A promise that was not kept."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What an undisturbed run in one process wrote."""

    files: dict[str, bytes]
    """Parts and rejects by their names."""
    names: frozenset[str]
    """Of everything in the folder."""
    receipts: dict[str, Any]
    totals: dict[str, Any]


def expected(folder: Path) -> Expected:
    """Read the folder of the undisturbed run, which must add up by itself.

    Raises:
        Miss: it does not.
    """
    record = json.loads((folder / "_promptmill" / "run.json").read_text())
    names = frozenset(_names(folder))
    check_counts(folder, record["totals"])
    return Expected(_files(folder), names, _receipts(folder), _lasting(record["totals"]))


def check(folder: Path, want: Expected) -> None:
    """Compare a folder with what is expected.

    Raises:
        Miss: with what is wrong.
    """
    record = json.loads((folder / "_promptmill" / "run.json").read_text())
    if record["state"] != "finished":
        raise Miss(f"run.json says {record['state']}")
    check_counts(folder, record["totals"])
    _same("names of files", set(_names(folder)), set(want.names))
    found = _files(folder)
    changed = sorted(name for name, data in want.files.items() if found[name] != data)
    if changed:
        raise Miss(f"other bytes than the undisturbed run: {', '.join(changed[:5])}")
    for name, receipt in _receipts(folder).items():
        _same(f"receipt {name}", receipt, want.receipts[name])
    _same("totals", _lasting(record["totals"]), want.totals)


def check_counts(folder: Path, totals: dict[str, Any]) -> None:
    """Rows in are rows out and rejects, and no row is there twice."""
    rows = [place for part in sorted(folder.glob("part-*.parquet")) for place in _places(part)]
    lines = [
        json.loads(line)
        for path in sorted((folder / "_promptmill" / "rejects").glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").split("\n")
        if line
    ]
    rejects = [(line["source"], line["row_index"], line["prompt_index"]) for line in lines]
    counted = (len(rows), len(rejects), len(rows) + len(rejects))
    said = (totals["rows_ok"], totals["rows_rejected"], totals["rows_in"])
    _same("rows out, rejects and rows in", counted, said)
    twice = [place for place, times in Counter(rows + rejects).items() if times > 1]
    if twice:
        raise Miss(f"{len(twice)} rows are there twice, first {twice[0]}")


def _places(part: Path) -> list[Place]:
    columns = ["source", "row_index", "prompt_index"]
    table = pq.read_table(part, columns=columns)
    return list(zip(*(table[name].to_pylist() for name in columns), strict=True))


def _names(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*")]


def _files(folder: Path) -> dict[str, bytes]:
    paths = [*folder.glob("part-*"), *(folder / "_promptmill" / "rejects").iterdir()]
    return {path.name: path.read_bytes() for path in paths}


def _receipts(folder: Path) -> dict[str, Any]:
    """Without what differs from attempt to attempt."""
    found = {}
    for path in (folder / "_promptmill" / "receipts").iterdir():
        receipt = json.loads(path.read_text())
        lasting = ("shard", "part", "rejects", "input_sha256", "examples")
        kept = {name: receipt[name] for name in lasting}
        found[path.name] = {**kept, "totals": _lasting(receipt["totals"])}
    return found


def _lasting(totals: dict[str, Any]) -> dict[str, Any]:
    """Counts, without what differs from start to start."""
    return {name: value for name, value in totals.items() if name not in PASSING}


def _same(what: str, found: object, want: object) -> None:
    if found != want:
        raise Miss(f"{what}: {str(found)[:400]} instead of {str(want)[:400]}")

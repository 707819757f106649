"""`--pack`: an index over finished parts, and the sequences that it stands for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from promptmill.pipeline.read.finished import finished_parts
from promptmill.pipeline.read.packs import PackedSequence, packed_sequences, read_pack_totals
from promptmill.pipeline.write import packs as write_side
from promptmill.schemas.errors import JobError
from promptmill.schemas.options import JobOptions
from promptmill.workers.progress import LineReporter
from promptmill.workers.run import run

SIZE = 40
ROWS = [
    {"id": f"r{n}", "messages": [{"role": "user", "content": "cat " * (n * 7 % 30)}]}
    for n in range(60)
]
PackRun = Callable[..., str]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def pack_run(tmp_path: Path, out: Path, tiny_models: Path) -> PackRun:
    """A run in shards of seven rows; what it said at its end."""
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in ROWS))

    def start(**options: object) -> str:
        given: dict[str, object] = {
            "input": (str(source),),
            "output": str(out),
            "model": str(tiny_models / "chatml"),
            "max_model_len": 256,
            "rows_per_shard": 7,
            "local": True,
            "pack": SIZE,
        }
        job = JobOptions.model_validate(given | options)
        with (tmp_path / "log").open("w") as log:
            return "\n".join(run(job, LineReporter(log)).lines)

    return start


def index_of(out: Path, size: int = SIZE) -> Path:
    return out / "_promptmill" / "packs" / f"{size}.parquet"


def stored(out: Path) -> list[dict[str, Any]]:
    return [row for part in finished_parts(out) for row in pq.read_table(part).to_pylist()]


def check(sequences: list[PackedSequence], rows: list[dict[str, Any]], ids: str) -> None:
    """That the sequences hold the rows, each once, one after the other."""
    found: list[list[int]] = []
    for sequence in sequences:
        assert len(sequence.input_ids) <= SIZE
        for number, (start, stop) in enumerate(
            zip(sequence.cu_seqlens[:-1], sequence.cu_seqlens[1:], strict=True), 1
        ):
            assert sequence.position_ids[start:stop].tolist() == list(range(stop - start))
            assert set(sequence.segment_ids[start:stop].tolist()) == {number}
            assert sequence.labels[start] == -100
            found.append(sequence.input_ids[start:stop].tolist())
    assert sorted(found) == sorted(row[ids] for row in rows if len(row[ids]) <= SIZE)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_packs_hold_every_row_that_fits_once(pack_run: PackRun, out: Path, kind: str) -> None:
    said = pack_run(format=kind)
    dataset = ds.dataset(out, format="parquet" if kind == "parquet" else "ipc")
    rows = dataset.to_table().to_pylist()
    long = [row for row in rows if row["num_tokens"] > SIZE]
    assert long
    check(list(packed_sequences(out, SIZE)), rows, "prompt_token_ids")
    totals = read_pack_totals(index_of(out))
    assert totals is not None
    assert (totals.rows, totals.too_long) == (len(rows) - len(long), len(long))
    assert totals.first_too_long == f"in.jsonl row {long[0]['row_index']}"
    assert f"{totals.rows} rows in {totals.packs} sequences of at most 40 ids" in said
    assert f"{totals.too_long} rows longer than that in no sequence, first in.jsonl row" in said
    assert pq.read_table(index_of(out))["num_tokens"].to_numpy().sum() == totals.tokens


@pytest.mark.parametrize("options", [{"columns": "hf"}, {"columns": "vllm"}])
def test_labels_are_those_of_the_rows(
    pack_run: PackRun, out: Path, options: dict[str, object]
) -> None:
    pack_run(task="train", **options)
    ids, masks = (
        ("input_ids", "assistant_masks")
        if options["columns"] == "hf"
        else ("prompt_token_ids", "assistant_mask")
    )
    rows = stored(out)
    check(list(packed_sequences(out, SIZE)), rows, ids)
    per_part = [pq.read_table(part).to_pylist() for part in finished_parts(out)]
    for sequence in packed_sequences(out, SIZE):
        for (part, row), start in zip(sequence.rows, sequence.cu_seqlens, strict=False):
            whole = per_part[part][row]
            expected = np.where(np.array(whole[masks]) == 1, whole[ids], -100)
            labels = sequence.labels[start : start + len(expected)].tolist()
            assert labels == [-100, *expected[1:].tolist()]


def test_windows_bound_what_is_held(
    pack_run: PackRun, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_side, "WINDOW_ROWS", 9)
    monkeypatch.setattr(write_side, "WINDOW_TOKENS", 2 * SIZE)
    pack_run()
    file = pq.ParquetFile(index_of(out))
    last = (-1, -1)
    for window in range(file.num_row_groups):
        table = file.read_row_group(window).to_pydict()
        places = sorted(
            place
            for pack in zip(table["part"], table["row"], strict=True)
            for place in zip(*pack, strict=True)
        )
        assert len(places) <= 9
        assert sum(table["num_tokens"]) <= 2 * SIZE
        assert places[0] > last, "windows follow one another"
        last = places[-1]
    assert file.num_row_groups > 3
    check(list(packed_sequences(out, SIZE)), stored(out), "prompt_token_ids")


def test_an_index_can_be_had_later_and_again(pack_run: PackRun, out: Path) -> None:
    pack_run(pack=None)
    before = {part: part.read_bytes() for part in finished_parts(out)}
    record = (out / "_promptmill" / "run.json").read_bytes()
    assert not index_of(out).exists()
    said = pack_run()
    assert "packed: " in said
    assert "finished already: only the index" in said
    first = index_of(out).read_bytes()
    assert "finished already" in pack_run()
    index_of(out).write_bytes(first[: len(first) // 2])
    pack_run()
    assert index_of(out).read_bytes() == first
    pack_run(pack=80)
    assert index_of(out, 80).exists()
    assert {part: part.read_bytes() for part in finished_parts(out)} == before
    assert (out / "_promptmill" / "run.json").read_bytes() == record
    assert not (out / "_promptmill" / "tmp").exists()
    assert sorted(path.name for path in out.iterdir()) == sorted(
        ["_promptmill", *(part.name for part in before)]
    )


def test_an_index_of_other_parts_is_refused(pack_run: PackRun, out: Path, tmp_path: Path) -> None:
    with pytest.raises(JobError, match="Give the run's command again with --pack 40"):
        next(packed_sequences(out, SIZE))
    pack_run()
    old = index_of(out).read_bytes()
    pack_run(output=str(tmp_path / "other"), max_model_len=128)
    index_of(tmp_path / "other").write_bytes(old)
    with pytest.raises(JobError, match="belongs to other parts"):
        next(packed_sequences(tmp_path / "other", SIZE))


def test_a_run_without_rows_has_an_empty_index(
    pack_run: PackRun, out: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert "packed: 0 rows in 0 sequences" in pack_run(input=(str(empty),))
    assert list(packed_sequences(out, SIZE)) == []


def test_a_stop_leaves_nothing_behind(pack_run: PackRun, out: Path, tmp_path: Path) -> None:
    pack_run()
    path = tmp_path / "index"
    assert write_side.write_packs(path, finished_parts(out), SIZE, "f", lambda: True) is None

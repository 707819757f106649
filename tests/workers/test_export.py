"""Exports, read back by whom they are for, or by a reader that knows the format alone."""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.dataset as ds
import pytest

from promptmill.pipeline.write.megatron import write_indexed
from promptmill.pipeline.write.readback import generate_request
from promptmill.schemas.errors import JobError
from promptmill.schemas.export import ExportTo
from promptmill.schemas.options import JobOptions
from promptmill.schemas.run import Receipt, RunState
from promptmill.workers.export import export
from promptmill.workers.output_folder import OutputFolder
from promptmill.workers.progress import LineReporter
from promptmill.workers.run import run

TALK = [{"role": "user", "content": "cat"}, {"role": "assistant", "content": "on the mat"}]
ROWS = [{"id": f"r{n}", "messages": [*TALK[:1] * (n + 1), TALK[1]]} for n in range(7)]
MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path, tiny_models: Path) -> MakeRun:
    """A finished run in shards of three rows."""

    def start(rows: list[dict[str, Any]] = ROWS, **options: object) -> Path:
        (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        given: dict[str, object] = {
            "input": (str(tmp_path / "in.jsonl"),),
            "output": str(tmp_path / "out"),
            "model": str(tiny_models / "chatml"),
            "max_model_len": 256,
            "rows_per_shard": 3,
            "local": True,
        }
        with (tmp_path / "log").open("w") as log:
            job = JobOptions.model_validate(given | options)
            run(job, LineReporter(log))
        return Path(job.output)

    return start


def stored(out: Path) -> list[dict[str, Any]]:
    kind = "ipc" if list(out.glob("*.arrow")) else "parquet"
    rows: list[dict[str, Any]] = ds.dataset(out, format=kind).to_table().to_pylist()
    return rows


def read_indexed(prefix: Path) -> tuple[list[list[int]], list[int]]:
    """Megatron's layout as it is documented: the sequences and the document list."""
    index = prefix.with_suffix(".idx").read_bytes()
    assert index[:9] == b"MMIDIDX\x00\x00"
    version, code, sequences, entries = struct.unpack_from("<QBQQ", index, 9)
    kind = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}[code]
    assert version == 1
    sizes = np.frombuffer(index, "<i4", sequences, 34)
    pointers = np.frombuffer(index, "<i8", sequences, 34 + 4 * sequences)
    documents = np.frombuffer(index, "<i8", entries, 34 + 12 * sequences)
    assert len(index) == 34 + 12 * sequences + 8 * entries
    data = prefix.with_suffix(".bin").read_bytes()
    found = [
        np.frombuffer(data, kind, size, pointer).tolist()
        for size, pointer in zip(sizes, pointers, strict=True)
    ]
    assert sum(map(len, found)) * np.dtype(kind).itemsize == len(data)
    return found, documents.tolist()


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_megatron(make_run: MakeRun, tmp_path: Path, kind: str) -> None:
    out = make_run(format=kind)
    done = export(out, ExportTo.MEGATRON, tmp_path / "data" / "train")
    ids = [row["prompt_token_ids"] for row in stored(out)]
    found, documents = read_indexed(tmp_path / "data" / "train")
    assert found == ids
    assert documents == list(range(len(ids) + 1))
    assert (done.rows, done.tokens, done.notes) == (7, sum(map(len, ids)), [])
    assert sorted(p.name for p in (tmp_path / "data").iterdir()) == ["train.bin", "train.idx"]


@pytest.mark.parametrize(
    ("columns", "mask"), [("vllm", "assistant_mask"), ("hf", "assistant_masks")]
)
def test_megatron_says_that_it_has_no_mask(
    make_run: MakeRun, tmp_path: Path, columns: str, mask: str
) -> None:
    out = make_run(task="train", columns=columns)
    done = export(out, ExportTo.MEGATRON, tmp_path / "train")
    rows = ds.dataset(out).to_table(columns=[mask]).column(mask).to_pylist()
    outside = sum(row.count(0) for row in rows)
    assert done.notes == [
        f"the loss mask is not in the files: Megatron will learn {outside:,} ids outside of it, too"
    ]


@pytest.mark.parametrize("columns", ["vllm", "hf"])
def test_megatron_needs_no_mask_where_every_id_is_learned(
    make_run: MakeRun, tmp_path: Path, columns: str
) -> None:
    rows = [{"id": "a", "text": "the cat"}, {"id": "b", "text": "on the mat"}]
    out = make_run(rows, task="train", text_column="text", append_eos=True, columns=columns)
    assert export(out, ExportTo.MEGATRON, tmp_path / "train").notes == []


@pytest.mark.parametrize("count", [1, 3])
def test_an_index_needs_the_right_count(tmp_path: Path, count: int) -> None:
    rows = [np.array([1, 2], np.int32), np.array([], np.int32)]
    with pytest.raises(ValueError, match="rows"):
        write_indexed(tmp_path / "bin", tmp_path / "idx", rows, count)
    assert write_indexed(tmp_path / "a.bin", tmp_path / "a.idx", rows, 2) == 2
    assert read_indexed(tmp_path / "a") == ([[1, 2], []], [0, 1, 2])


@pytest.mark.parametrize("columns", ["vllm", "hf"])
def test_hugging_face(make_run: MakeRun, tmp_path: Path, columns: str) -> None:
    import datasets  # here, because importing it takes seconds

    out = make_run(task="train", columns=columns, with_text=True)
    done = export(out, ExportTo.HF, tmp_path / "set")
    loaded = datasets.load_from_disk(str(tmp_path / "set"))
    rows = stored(make_run(task="train", columns="hf", with_text=True, output=f"{tmp_path}/hf"))
    assert loaded.to_list() == rows
    assert loaded.column_names == list(rows[0])
    assert done.rows == len(loaded) == 7
    assert done.tokens == sum(loaded["length"])
    again = loaded.map(lambda row: {"first": row["input_ids"][0]})
    assert again[0]["first"] == rows[0]["input_ids"][0]


def test_pooling_has_no_labels(make_run: MakeRun, tmp_path: Path) -> None:
    import datasets

    out = make_run([{"id": "a", "input": "cat"}], task="pooling")
    export(out, ExportTo.HF, tmp_path / "set")
    loaded = datasets.load_from_disk(str(tmp_path / "set"))
    assert "labels" not in loaded.column_names
    assert loaded["custom_id"][:] == ["a"]


def test_vllm_requests(make_run: MakeRun, tmp_path: Path) -> None:
    rows = [
        ROWS[0] | {"temperature": 0.5, "max_tokens": 9, "seed": 7},
        ROWS[1],
        {"id": "text", "prompt": "the cat", "logprobs": 2},
    ]
    out = make_run(rows, columns="hf")
    done = export(out, ExportTo.JSONL_VLLM, tmp_path / "batch.jsonl")
    bodies = [json.loads(line) for line in (tmp_path / "batch.jsonl").read_text().splitlines()]
    assert bodies == [generate_request(row) for row in stored(out)]
    asked = {"temperature": 0.5, "max_tokens": 9, "seed": 7}
    assert asked.items() <= bodies[0]["sampling_params"].items()
    assert [body["request_id"] for body in bodies] == ["r0", "r1", "text"]
    assert bodies[2]["sampling_params"]["logprobs"] == 2
    assert (done.rows, done.notes) == (3, [])
    assert done.tokens == sum(len(body["token_ids"]) for body in bodies)


@pytest.mark.parametrize(
    ("options", "to", "said"),
    [
        ({"task": "train"}, ExportTo.JSONL_VLLM, "Make a run with --task generate"),
        ({"task": "pooling"}, ExportTo.JSONL_VLLM, "Make a run with --task generate"),
    ],
)
def test_what_makes_no_sense_is_refused(
    make_run: MakeRun, tmp_path: Path, options: dict[str, object], to: ExportTo, said: str
) -> None:
    out = make_run(**options)
    with pytest.raises(JobError, match=said):
        export(out, to, tmp_path / "dest")
    assert not list(tmp_path.glob("*dest*"))


def with_media(out: Path) -> None:
    """The run says of itself that it has an image."""
    folder = OutputFolder(out)
    ((_, receipt), *_) = folder.receipts()
    assert isinstance(receipt, Receipt)
    totals = dataclasses.replace(receipt.totals, media={"image": 1})
    changed = dataclasses.replace(receipt, totals=totals)
    folder.receipt(receipt.shard).write_bytes(msgspec.json.encode(changed))


@pytest.mark.parametrize(
    ("options", "to", "said"),
    [
        ({}, ExportTo.MEGATRON, "1 media item, and Megatron's indexed files hold ids only"),
        ({"media_ids": "collapsed"}, ExportTo.JSONL_VLLM, "Make a run with --media-ids expanded"),
    ],
)
def test_media_that_an_export_cannot_carry_are_refused(
    make_run: MakeRun, tmp_path: Path, options: dict[str, object], to: ExportTo, said: str
) -> None:
    out = make_run(**options)
    with_media(out)
    with pytest.raises(JobError, match=said):
        export(out, to, tmp_path / "dest")


def test_media_in_requests_are_a_warning(make_run: MakeRun, tmp_path: Path) -> None:
    out = make_run()
    with_media(out)
    done = export(out, ExportTo.JSONL_VLLM, tmp_path / "batch.jsonl")
    assert "the server must have them in its cache" in done.notes[0]


@pytest.mark.parametrize("to", list(ExportTo))
def test_nothing_is_overwritten(make_run: MakeRun, tmp_path: Path, to: ExportTo) -> None:
    out = make_run()
    taken = tmp_path / ("dest.idx" if to is ExportTo.MEGATRON else "dest")
    taken.write_text("mine")
    with pytest.raises(JobError, match="is there already"):
        export(out, to, tmp_path / "dest")
    assert taken.read_text() == "mine"
    with pytest.raises(JobError, match="lies in the run's folder"):
        export(out, to, out / "dest")


def test_urls_are_refused(make_run: MakeRun, tmp_path: Path) -> None:
    for output, destination in (("s3://bucket/out", tmp_path), (make_run(), "s3://bucket/set")):
        with pytest.raises(JobError, match="is a URL"):
            export(output, ExportTo.HF, destination)


def test_only_finished_runs_are_exported(make_run: MakeRun, tmp_path: Path) -> None:
    with pytest.raises(JobError, match="holds no promptmill run"):
        export(tmp_path, ExportTo.HF, tmp_path / "dest")
    out = make_run()
    folder = OutputFolder(out)
    record = folder.read_record()
    assert record is not None
    folder.write_record(dataclasses.replace(record, state=RunState.RUNNING))
    with pytest.raises(JobError, match="not finished: 3 of 3 shards"):
        export(out, ExportTo.HF, tmp_path / "dest")
    folder.write_record(record)
    next(out.glob("part-*")).unlink()
    with pytest.raises(JobError, match="not finished: 2 of 3 shards"):
        export(out, ExportTo.HF, tmp_path / "dest")


@pytest.mark.parametrize("to", list(ExportTo))
def test_a_failure_leaves_nothing_behind(make_run: MakeRun, tmp_path: Path, to: ExportTo) -> None:
    out = make_run()
    part = sorted(out.glob("part-*"))[1]
    part.write_bytes(b"x" * part.stat().st_size)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(JobError, match="cannot be read"):
        export(out, to, tmp_path / "dest")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_run_without_rows_is_refused(make_run: MakeRun, tmp_path: Path) -> None:
    with pytest.raises(JobError, match="nothing to export"):
        export(make_run([]), ExportTo.HF, tmp_path / "dest")

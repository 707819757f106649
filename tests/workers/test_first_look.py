"""What is said about options before the work begins: `promptmill.workers.first_look`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from promptmill.pipeline.read.plan import plan_input
from promptmill.schemas.options import EngineName, JobOptions, Task
from promptmill.workers.first_look import first_look
from promptmill.workers.job import resolve_job

ROWS = [{"name": "a", "text": "cat"}, {"name": "b", "text": "dog"}]


def _jsonl(path: Path) -> Path:
    path = path.with_suffix(".jsonl")
    path.write_text("\n" + "".join(f"{json.dumps(row)}\n" for row in ROWS))
    return path


def _packed(path: Path) -> Path:
    path = path.with_suffix(".jsonl.gz")
    path.write_bytes(gzip.compress(b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)))
    return path


def _parquet(path: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(ROWS), path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def _arrow(path: Path) -> Path:
    pyarrow.feather.write_feather(pa.Table.from_pylist(ROWS), path.with_suffix(".arrow"))
    return path.with_suffix(".arrow")


def looked(path: Path, **options: object) -> tuple[str, ...]:
    given = {"input": (str(path),), "output": "out", "model": "m", "max_model_len": 64, **options}
    job = JobOptions.model_validate(given)
    return first_look(job, plan_input(job))


KINDS = [_jsonl, _packed, _parquet, _arrow]


@pytest.mark.parametrize("write", KINDS)
def test_a_column_that_is_not_there_is_named_with_those_that_are(
    tmp_path: Path, write: Callable[[Path], Path]
) -> None:
    path = write(tmp_path / "in")
    assert looked(path, text_column="text", id_column="name") == ()
    text, ids = looked(path, text_column="txt", id_column="nom")
    start = f"The first row of {path.name} has no "
    assert text.startswith(f"{start}'txt', which --text-column names: ")
    assert ids.startswith(f"{start}'nom', which --id-column names: ")
    assert text.endswith("It has 'name', 'text'.")


@pytest.mark.parametrize(
    "line",
    ["", "[1]", "{", '{"error": {"code": "invalid_json"}, "request": null, "stage": "parse"}'],
)
def test_what_tells_nothing_is_left_alone(tmp_path: Path, line: str) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(f"{line}\n")
    assert looked(path, text_column="text") == ()


def test_budgets_beyond_the_context_are_told(tmp_path: Path) -> None:
    path = _jsonl(tmp_path / "in")
    assert looked(path, truncate_prompt_tokens=64, max_tokens=64) == ()
    keep, output = looked(path, truncate_prompt_tokens=65, max_tokens=70)
    assert keep.startswith("--truncate-prompt-tokens 65 is more than the context of 64 ids")
    assert output.startswith("--max-tokens 70 is more than the context of 64 ids")
    assert looked(path, max_tokens=70, task=Task.POOLING) == ()


@pytest.mark.parametrize("write", KINDS)
def test_small_input_is_not_worth_loading_a_fast_engine(
    tmp_path: Path, tiny_models: Path, write: Callable[[Path], Path]
) -> None:
    job = JobOptions(
        input=(str(write(tmp_path / "in")),),
        output=str(tmp_path / "out"),
        model=str(tiny_models / "chatml"),
        text_column="text",
        id_column="nom",
    )
    resolved = resolve_job(job)
    assert resolved.worker_options.engine is EngineName.TOKENIZERS
    assert resolved.options.engine is EngineName.AUTO, "a plan is a job file, also for more input"
    assert any("'nom', which --id-column names" in warning for warning in resolved.warnings)

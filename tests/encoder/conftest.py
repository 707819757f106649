"""Encoders of model folders, and raw rows to give them."""

import functools
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.model.load import load_bundle
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.options import EngineName, JobOptions, Task
from promptmill.schemas.request import RawRow

CLOCK = datetime(2026, 1, 15, 12, tzinfo=UTC)


def options_of(folder: Path, **options: object) -> JobOptions:
    given = {"input": ("rows.jsonl",), "output": "out", "model": str(folder), **options}
    return JobOptions.model_validate(given)


@functools.lru_cache(maxsize=2)  # a real tokenizer takes some hundred megabytes
def loaded(folder: Path, task: Task, mode: str, engine: EngineName) -> Encoder:
    options = options_of(folder, task=task, tokenizer_mode=mode, engine=engine)
    return Encoder(load_bundle(options), options, CLOCK)


@pytest.fixture(scope="session")
def make_encoder() -> Callable[..., Encoder]:
    """An encoder of a model folder under some options; a tokenizer is loaded once."""

    def make(folder: Path, **options: object) -> Encoder:
        job = options_of(folder, **options)
        first = loaded(folder, job.task, job.tokenizer_mode, job.engine)
        return first.with_options(job, CLOCK)

    return make


@pytest.fixture(scope="session")
def make_rows() -> Callable[..., list[RawRow]]:
    """Rows of one file, a JSON body each; bytes are taken as they are."""

    def make(*bodies: JsonObject | bytes) -> list[RawRow]:
        lines = (body if isinstance(body, bytes) else json.dumps(body).encode() for body in bodies)
        return [RawRow("rows.jsonl", index, line) for index, line in enumerate(lines)]

    return make

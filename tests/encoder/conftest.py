"""Encoders of model folders, rows to give them, and what must hold of any offsets."""

import functools
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.normalizers import Normalizer

from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.model.load import load_bundle
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.options import EngineName, JobOptions, Task
from promptmill.schemas.request import EncodedBatch, Offsets, RawRow, TokenRow

CLOCK = datetime(2026, 1, 15, 12, tzinfo=UTC)


def options_of(folder: Path, **options: object) -> JobOptions:
    given = {"input": ("rows.jsonl",), "output": "out", "model": str(folder), **options}
    return JobOptions.model_validate(given)


def loaded(folder: Path, task: Task, mode: str, engine: EngineName) -> Encoder:
    options = options_of(folder, task=task, tokenizer_mode=mode, engine=engine)
    return Encoder(load_bundle(options), options, CLOCK)


real = functools.lru_cache(maxsize=6)(loaded)  # one takes some hundred megabytes
tiny = functools.cache(loaded)


@pytest.fixture(scope="session")
def make_encoder() -> Callable[..., Encoder]:
    """An encoder of a model folder under some options; a tokenizer is loaded once."""

    def make(folder: Path, **options: object) -> Encoder:
        job = options_of(folder, **options)
        first = real(folder, job.task, job.tokenizer_mode, job.engine)
        return Encoder(first.bundle, job, CLOCK, first.tokenizer)

    return make


@pytest.fixture(scope="session")
def tiny_encoder(tiny_models: Path) -> Callable[..., Encoder]:
    """The same of a tiny model, by its name."""

    def make(name: str, **options: object) -> Encoder:
        job = options_of(tiny_models / name, **options)
        first = tiny(tiny_models / name, job.task, job.tokenizer_mode, job.engine)
        return Encoder(first.bundle, job, CLOCK, first.tokenizer)

    return make


@pytest.fixture(scope="session")
def encode() -> Callable[..., EncodedBatch]:
    """The rows of a shard through an encoder; a body each, or a line as it stands."""

    def run(encoder: Encoder, *bodies: JsonObject | bytes) -> EncodedBatch:
        encoder.start_shard()
        lines = (body if isinstance(body, bytes) else json.dumps(body).encode() for body in bodies)
        return encoder.encode([RawRow("rows.jsonl", n, line) for n, line in enumerate(lines)])

    return run


@functools.lru_cache(maxsize=8)
def normalizer_of(backend: str) -> Normalizer | None:
    return Tokenizer.from_str(backend).normalizer


@pytest.fixture(scope="session")
def check_offsets() -> Callable[[TokenRow, Encoder], None]:
    """That the offsets of a whole prompt rise, lie inside its text and cover it.

    A normalizer may leave characters out, such as an accent that it joins to its letter.
    """

    def check(row: TokenRow, encoder: Encoder) -> None:
        assert row.text is not None
        assert row.offsets is not None
        assert len(row.offsets) == len(row.ids)
        starts, stops = row.offsets.T
        assert (np.diff(starts) >= 0).all()
        assert (starts >= 0).all()
        assert (starts <= stops).all()
        assert (stops <= len(row.text)).all()
        normalizer = normalizer_of(encoder.bundle.backend or "")
        for at in uncovered(row.offsets, len(row.text)):
            assert normalizer is not None
            without, with_it = (normalizer.normalize_str(row.text[:end]) for end in (at, at + 1))
            assert len(with_it) <= len(without), "no token covers a character that is kept"

    return check


def uncovered(offsets: Offsets, length: int) -> list[int]:
    """Characters that no token covers."""
    edges = np.zeros(length + 1, int)
    np.add.at(edges, offsets[:, 0], 1)
    np.add.at(edges, offsets[:, 1], -1)
    return [int(at) for at in np.flatnonzero(edges.cumsum()[:length] <= 0)]

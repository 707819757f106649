"""How many workers a run has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import typer

from promptmill.schemas.options import JobOptions, WorkerRange
from promptmill.schemas.run import Totals
from promptmill.workers.cli.job import read_job
from promptmill.workers.fleet_size import FleetSize
from promptmill.workers.leases import Snapshot

START = Snapshot(
    totals=Totals(),
    shards=100,
    shards_done=0,
    shards_waiting=100,
    workers=0,
    failure=None,
    silent=(),
    notes=(),
    held=(),
)
NAMES = {"input": ["in.jsonl"], "output": "out", "model": "m"}


def test_a_number_is_kept() -> None:
    size = FleetSize(WorkerRange(4, 4))
    assert [size.wanted(START, members) for members in (0, 3, 4)] == [4, 4, 4]
    assert size.wanted(replace(START, shards_done=98), 4) == 2


def test_a_range_grows_when_all_are_ready_and_enough_waits() -> None:
    size = FleetSize(WorkerRange(1, 6))
    assert size.wanted(START, 0) == 1
    assert size.wanted(START, 1) == 1, "the first is not ready yet"
    assert size.wanted(replace(START, workers=1), 1) == 2
    assert size.wanted(replace(START, workers=4), 4) == 6
    assert size.wanted(replace(START, workers=4, shards_waiting=4), 4) == 4
    assert size.wanted(replace(START, workers=2, shards_waiting=0), 2) == 2


def test_the_dead_are_replaced_down_to_the_least() -> None:
    size = FleetSize(WorkerRange(2, 6))
    idle = replace(START, workers=1, shards_waiting=1)
    assert size.wanted(idle, 1) == 2


@pytest.mark.parametrize(
    ("given", "read", "kept"),
    [(4, (4, 4), 4), ("4", (4, 4), 4), ("2:16", (2, 16), "2:16"), ("3:3", (3, 3), 3)],
)
def test_how_it_is_written(given: object, read: tuple[int, int], kept: object) -> None:
    job = JobOptions.model_validate({**NAMES, "workers": given})
    assert job.workers == read
    assert job.model_dump(mode="json")["workers"] == kept
    assert JobOptions.model_validate(job.model_dump(mode="json")) == job


@pytest.mark.parametrize("given", [0, "0:2", "4:2", "many", "1:", "1:2:3", True, 1.5])
def test_what_is_no_number_of_workers(given: object) -> None:
    with pytest.raises(ValueError, match="workers"):
        JobOptions.model_validate({**NAMES, "workers": given})


def test_a_range_in_yaml_is_no_time_of_day(tmp_path: Path) -> None:
    config = tmp_path / "job.yaml"
    config.write_text("workers: 2:16\nmax_tokens: 16\n")
    job = read_job(NAMES, config=config)
    assert (job.workers, job.max_tokens) == ((2, 16), 16)
    assert read_job(NAMES, settings=["workers=1:3"]).workers == (1, 3)
    with pytest.raises(typer.BadParameter, match=r"--workers.*range"):
        read_job(NAMES, settings=["workers=a:b"])

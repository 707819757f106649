"""What the tests of reading share: a job on some inputs, its plan, and all rows of a plan."""

from collections.abc import Callable
from pathlib import Path

import pytest

from promptmill.pipeline.read.plan import plan_input
from promptmill.pipeline.read.rows import ShardReader
from promptmill.schemas.options import JobOptions
from promptmill.schemas.request import RawRow
from promptmill.schemas.shard import Plan


def _job(*inputs: str | Path, **options: int) -> JobOptions:
    return JobOptions.model_validate(
        {"input": tuple(map(str, inputs)), "output": "out", "model": "model", **options}
    )


def _read(*inputs: str | Path, **options: int) -> tuple[Plan, list[RawRow]]:
    job = _job(*inputs, **options)
    plan = plan_input(job)
    rows: list[RawRow] = []
    for shard in plan.shards:
        part = list(ShardReader(shard, job))
        assert len(part) == shard.rows > 0
        assert [row.row_index for row in part] == list(
            range(shard.first_row, shard.first_row + shard.rows)
        )
        rows += part
    assert len(rows) == plan.rows
    assert [shard.index for shard in plan.shards] == list(range(len(plan.shards)))
    return plan, rows


@pytest.fixture(scope="session")
def job() -> Callable[..., JobOptions]:
    """`job(input, ..., option=value)`: the options of a job on these inputs."""
    return _job


@pytest.fixture(scope="session")
def read() -> Callable[..., tuple[Plan, list[RawRow]]]:
    """`read(input, ..., option=value)`: plan a job and read all its shards.

    What must always hold is checked: every shard gives as many rows as planned, numbered through.
    """
    return _read

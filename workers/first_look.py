"""What options do to this input, as far as its first row tells: said once, before the work begins.

Rows may differ from each other, so these are warnings and no refusals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final

from promptmill.pipeline.parse.decode import decode_line
from promptmill.pipeline.read.arrow import arrow_columns
from promptmill.pipeline.read.files import HashedFile, open_input
from promptmill.pipeline.read.parquet import parquet_columns
from promptmill.pipeline.read.rows import read_shard
from promptmill.schemas.errors import RowError
from promptmill.schemas.options import JobOptions, Task
from promptmill.schemas.reject import is_reject_line
from promptmill.schemas.shard import InputKind, Plan, Shard

MOST_NAMED: Final = 8
LONGEST_NAME: Final = 40
"""Characters of a key: what is no name but content is not shown whole."""


def first_look(options: JobOptions, plan: Plan) -> tuple[str, ...]:
    """Warnings about options that reject rows, or do nothing for them.

    Args:
        options: resolved: with the context length that applies.
        plan: the cut input.
    """
    return (*_budgets(options), *_columns(options, plan))


def _budgets(options: JobOptions) -> Iterator[str]:
    context = options.max_model_len or 0
    keep, output = options.truncate_prompt_tokens, options.max_tokens
    if keep is not None and keep > context:
        yield (
            f"--truncate-prompt-tokens {keep} is more than the context of {context} ids: rows that "
            "give none of their own are rejected. Give -1 for all of the context."
        )
    if output is not None and output > context and options.task is Task.GENERATE:
        yield (
            f"--max-tokens {output} is more than the context of {context} ids: rows that give none "
            "of their own are rejected. Leave it out for all that the prompt leaves."
        )


def _columns(options: JobOptions, plan: Plan) -> Iterator[str]:
    wanted = {
        "--text-column": (options.text_column, "rows without it are read as requests"),
        "--id-column": (options.id_column, "rows without it have their custom_id, id or place"),
    }
    if not plan.shards or not any(name for name, _ in wanted.values()):
        return
    shard = plan.shards[0]
    if (names := _names(shard, options)) is None:
        return
    for option, (name, otherwise) in wanted.items():
        if name is not None and name not in names:
            yield (
                f"The first row of {shard.file.name} has no {name!r}, which {option} names: "
                f"{otherwise}. It has {_some(names)}."
            )


def _names(shard: Shard, options: JobOptions) -> list[str] | None:
    """The columns of a file, or the keys of its first row; None where they cannot be told."""
    if shard.file.kind is InputKind.JSONL:
        return _keys(shard, options)
    columns = parquet_columns if shard.file.kind is InputKind.PARQUET else arrow_columns
    with closing(HashedFile(open_input(shard.file.url))) as file:
        return columns(file, shard.file.name)


def _keys(shard: Shard, options: JobOptions) -> list[str] | None:
    for row in read_shard(shard, options):
        if row.error is not None or not isinstance(row.data, bytes):
            return None
        if not row.data.strip():
            continue
        try:
            value = decode_line(row.data)
        except RowError:
            return None
        # A line of a rejects file stands for the row in it.
        return list(value) if isinstance(value, dict) and not is_reject_line(value) else None
    return None


def _some(names: Sequence[str]) -> str:
    shown = [f"{name[:LONGEST_NAME]!r}" for name in names[:MOST_NAMED]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "") if shown else "no keys"

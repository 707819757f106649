"""The names of a run's files, and of the temporary files beside them.

    part-00007-of-00032.parquet, receipts/00007.json, rejects/00007.jsonl

A temporary file begins with a dot, which every reader of a folder skips, and names its attempt.
"""

from __future__ import annotations

import secrets
from typing import Final

from promptmill.schemas.options import OutputFormat

PRIVATE: Final = "_promptmill"
"""Readers of data sets skip names that begin with an underscore."""


def part_name(index: int, total: int, kind: OutputFormat) -> str:
    """The token rows of shard `index` (0-based) of `total`.

    Five digits, more only where the total has more: sorted by name is sorted by number.
    """
    width = max(5, len(str(total)))
    return f"part-{index:0{width}}-of-{total:0{width}}.{kind}"


def receipt_name(index: int) -> str:
    """The receipt of a shard."""
    return f"{index:05}.json"


def rejects_name(index: int) -> str:
    """The rejects of a shard."""
    return f"{index:05}.jsonl"


def packs_name(size: int) -> str:
    """The index of packed sequences of at most `size` ids, below the private folder."""
    return f"packs/{size}.parquet"


def new_attempt() -> str:
    """A name for an attempt at a shard that no other attempt has."""
    return secrets.token_hex(6)


def temporary_name(final: str, attempt: str) -> str:
    """What a file is called until it is published as `final`."""
    return f".{final}.{attempt}.tmp"

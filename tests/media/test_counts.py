"""Ids per image against what the server counts, for every size it was asked for."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from promptmill.pipeline.media.base import Family

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "counts.py"


def golden_counts() -> ModuleType:
    """The module of the golden runner that reads the tables."""
    spec = importlib.util.spec_from_file_location("golden_counts", GOLDEN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_size(shared: Path, load_family: Callable[..., Family]) -> None:
    table = shared / "golden" / "media_counts.tsv"
    found = golden_counts().count_differences(table, load_family, lengths=False)
    assert not [f"{name}: {reason}" for name, reason in found if reason]

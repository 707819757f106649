"""A slice of the golden cases of every kind, in one process; `make golden` runs them all."""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
MODELS = (None, "qwen3", "mistral_tekken")
"""Of which models cases are taken; None: those of kind `unit`, which need none."""
KINDS = {"chat", "completion", "tokens", "prompt_dict", "unit", "tokenizer_info"}

Case = dict[str, Any]
Run = Callable[[Case], Any]


@pytest.fixture(scope="module")
def run(models: Path) -> Iterator[Run]:
    """Runs a case as the command does, and gives its verdict."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(HERE)  # the command's modules find each other there
        from cases import CaseRunner

        yield CaseRunner(models).run


@pytest.fixture(scope="module")
def cases(shared: Path) -> list[Case]:
    with (shared / "golden" / "serving.jsonl").open(encoding="utf-8") as lines:
        found = [json.loads(line) for line in lines]
    return [case for case in found if case["input"].get("model_dir") in MODELS]


def test_the_slice_passes(run: Run, cases: list[Case]) -> None:
    assert {case["input"]["kind"] for case in cases} == KINDS
    assert [verdict for verdict in map(run, cases) if not verdict.good] == []


@pytest.mark.parametrize("field", ["prompt", "prompt_token_ids", "prompt_token_offsets"])
def test_a_difference_is_noticed(run: Run, cases: list[Case], field: str) -> None:
    case = copy.deepcopy(next(case for case in cases if case["expected"].get(field)))
    case["expected"][field] = case["expected"][field][:-1]
    assert not run(case).good

"""What the reference front end accepted is parsed; what its request validation refused is not."""

import json
from collections import Counter
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import pytest

from promptmill.pipeline.parse.rows import parse_row
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.options import JobOptions
from promptmill.schemas.request import RawRow, Reject, Request

OPTIONS = JobOptions(input=("rows.jsonl",), output="out", model="model")
CHAT_FIELDS = (
    "messages",
    "tools",
    "chat_template",
    "chat_template_kwargs",
    "add_generation_prompt",
    "continue_final_message",
    "documents",
    "reasoning_effort",
)
FROM_VALIDATION = (
    "Cannot set both `continue_final_message` and `add_generation_prompt`",
    "`tools` must not be an empty array",
    "You must pass at least one prompt",
    "Either prompt or prompt_embeds must be provided",
    "suffix is only supported for models with FIM",
)
"""How errors begin that the reference raised before rendering, by types it also uses later."""


def parse(line: bytes) -> RowError | list[Request]:
    found = parse_row(RawRow("rows.jsonl", 0, line), OPTIONS)
    assert found
    first = found[0]
    if isinstance(first, Reject):
        assert len(found) == 1
        return first.error
    return [item for item in found if isinstance(item, Request)]


def refused_by_validation(error: dict[str, Any] | None) -> bool:
    if error is None:
        return False
    return error["type"] == "ValidationError" or error["message"].startswith(FROM_VALIDATION)


def body_of(given: dict[str, Any]) -> dict[str, Any]:
    request = given.get("request") or {}
    if given["kind"] == "chat":
        return {name: given[name] for name in CHAT_FIELDS if name in given} | request
    return {"prompt": given["prompt"], **request}


def test_golden_requests(shared: Path) -> None:
    seen = Counter[tuple[str, bool]]()
    for line in (shared / "golden" / "serving.jsonl").read_bytes().splitlines():
        case = json.loads(line)
        given, expected = case["input"], case["expected"]
        if given["kind"] not in ("chat", "completion", "tokens"):
            continue
        found = parse(json.dumps(body_of(given)).encode())
        error = expected.get("error")
        refused = refused_by_validation(error)
        assert isinstance(found, RowError) == refused, (case["id"], found)
        if isinstance(found, RowError):
            named = error.get("parameter", error.get("param"))
            assert error["type"] == "ValidationError" or found.parameter == named, case["id"]
        else:
            assert len(found) == len(expected.get("batch") or [expected]), case["id"]
        seen[given["kind"], refused] += 1
    assert len(seen) == 6, seen


def test_sweep_requests(shared: Path) -> None:
    sweep = SimpleNamespace(**run_path(str(shared / "golden" / "sweep_cases.py")))
    seen: dict[str, bool] = {}
    for case in sweep.load_cases(str(shared / "golden" / "sweep.jsonl.xz")):
        expected = case["expected"]
        refused = refused_by_validation(expected if expected["status"] == "error" else None)
        key = json.dumps([case["row"], case.get("request_overrides")])
        if key in seen:  # the same request under another tokenizer or template
            assert seen[key] == refused
            continue
        seen[key] = refused
        body = sweep.request_for(case, str(shared / "data"))
        found = parse(json.dumps(body).encode())
        assert isinstance(found, RowError) == refused, (case["id"], found)
    assert sum(seen.values()) > 0
    assert len(seen) > 3000


@pytest.mark.parametrize(
    "name", ["chat_20k", "chat_bigtools", "chat_small", "chat_special_tokens_docs"]
)
def test_chat_rows(shared: Path, name: str) -> None:
    with (shared / "data" / f"{name}.jsonl").open("rb") as lines:
        for number, line in enumerate(lines):
            found = parse(line)
            assert not isinstance(found, RowError), (number, found)
            assert found[0].custom_id == json.loads(line)["id"]


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("openai_chat_recorded", {96: "echo"}),
        ("openai_completions_recorded", {12: "n"}),
        ("openai_example_batch", {}),
    ],
)
def test_recorded_bodies(shared: Path, name: str, refused: dict[int, str]) -> None:
    lines = (shared / "data" / "requests" / f"{name}.jsonl").read_bytes().splitlines()
    found = {number: parse(line) for number, line in enumerate(lines)}
    # Null is not accepted for these two fields, there as here.
    assert {n: f.parameter for n, f in found.items() if isinstance(f, RowError)} == refused


def test_bodies_of_other_apis_are_refused(shared: Path) -> None:
    lines = (shared / "data" / "requests" / "other_api_recorded.jsonl").read_bytes().splitlines()
    for line in lines:
        found = parse(line)
        assert isinstance(found, RowError)
        assert found.code is ErrorCode.UNSUPPORTED_REQUEST
        wanted = "Anthropic Messages" if json.loads(line)["kind"] == "messages" else "Responses"
        assert wanted in found.message

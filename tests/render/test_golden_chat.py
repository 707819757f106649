"""The reference's chats: the same prompt, conversation and reason of failure, row by row."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from promptmill.pipeline.model.load import load_bundle
from promptmill.pipeline.parse.rows import parse_row
from promptmill.pipeline.render.hf import HfRenderer
from promptmill.pipeline.render.variables import merged_kwargs
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.options import JobOptions
from promptmill.schemas.request import ChatPrompt, RawRow, Reject, Rendered, Request

MODELS = ("qwen3", "llama3_1", "deepseek_v3", "gemma3", "gptoss", "llama2")
CLOCK = datetime.fromisoformat("2026-01-15T12:00:00")
FIELDS = (
    "messages",
    "tools",
    "chat_template",
    "chat_template_kwargs",
    "add_generation_prompt",
    "continue_final_message",
    "documents",
    "reasoning_effort",
)
BUDGETS = {"max_completion_tokens", "max_tokens", "input_tokens", "truncate_prompt_tokens"}
CODES = {
    "untrusted": ErrorCode.UNTRUSTED_TEMPLATE,
    "no_template": ErrorCode.NO_CHAT_TEMPLATE,
    "image_on_text_model": ErrorCode.MEDIA_UNSUPPORTED,
    "tpl_": ErrorCode.TEMPLATE_ERROR,
}


def cases(shared: Path, model: str) -> Iterator[dict[str, Any]]:
    with (shared / "golden" / "serving.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            given = case["input"]
            if given["kind"] == "chat" and given["model_dir"] == model:
                yield case


def options(folder: Path, given: dict[str, Any]) -> JobOptions:
    server = {"trust_request_chat_template": True, **(given.get("server") or {})}
    known = {key: value for key, value in server.items() if key in JobOptions.model_fields}
    return JobOptions(input=("rows.jsonl",), output="out", model=str(folder), **known)


def request(given: dict[str, Any], job: JobOptions) -> Request | Reject:
    body = {key: given[key] for key in FIELDS if key in given} | (given.get("request") or {})
    return parse_row(RawRow("rows.jsonl", 0, json.dumps(body).encode()), job)[0]


def rendered(row: Request, renderer: HfRenderer) -> Rendered | RowError:
    try:
        return renderer.render(row)
    except RowError as refused:
        return refused


def check(case: dict[str, Any], bundle: ModelBundle, job: JobOptions) -> None:
    expected, row = case["expected"], request(case["input"], job)
    error = expected.get("error")
    if isinstance(row, Reject):
        assert error is not None
        return
    renderer = HfRenderer(bundle, job, CLOCK)
    found = rendered(row, renderer)
    if isinstance(found, RowError):
        assert error is not None, found.message
        reason = error["message"].replace("<MODELS>/", "").replace(", so you must", ".")
        assert reason.split(". ")[0].rstrip(".") in found.message
        for name, code in CODES.items():
            assert found.code == code or name not in case["id"]
    elif error is not None:
        assert error["parameter"] in BUDGETS, error
    else:
        assert (None if found.hide_text else found.text) == expected["prompt"]
        assert isinstance(row.prompt, ChatPrompt)
        seen = renderer.conversation(row.prompt, merged_kwargs(row, row.prompt, job)).messages
        assert seen == expected["conversation"]
        assert [list(message) for message in seen] == [list(m) for m in expected["conversation"]]


@pytest.mark.parametrize("model", MODELS)
def test_golden_chats(shared: Path, models: Path, model: str) -> None:
    bundle = load_bundle(options(models / model, {}))
    found = 0
    for case in cases(shared, model):
        check(case, bundle, options(models / model, case["input"]))
        found += 1
    assert found

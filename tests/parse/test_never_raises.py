"""Whatever a row holds, it ends in requests or in one reject, and is not changed."""

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from promptmill.pipeline.parse import fields
from promptmill.pipeline.parse.body import ParsedBody, parse_body
from promptmill.pipeline.parse.rows import parse_row
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.options import JobOptions, Task
from promptmill.schemas.request import Endpoint, RawRow, Reject

CODES = {
    ErrorCode.INVALID_UTF8,
    ErrorCode.INVALID_JSON,
    ErrorCode.NESTING_TOO_DEEP,
    ErrorCode.LONE_SURROGATE,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNSUPPORTED_REQUEST,
    ErrorCode.EMPTY_PROMPT,
}
OPTIONS = [
    JobOptions(input=("i",), output="o", model="m", **given)  # type: ignore[arg-type] # any option
    for given in (
        {},
        {"task": Task.POOLING},
        {"tokenizer_mode": "deepseek_v4"},
        {"task": Task.TRAIN, "text_column": "text", "id_column": "key"},
        {"text_column": "prompt", "id_column": "id"},
    )
]
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {}}}
PARTS = [
    {"type": "text", "text": "a"},
    {"type": "image_url", "image_url": {"url": "u", "detail": "low"}},
    {"type": "thinking", "thinking": "t", "closed": True},
    "bare",
]
ROWS: list[dict[str, Any]] = [
    {
        "id": "a",
        "messages": [
            {"role": "system", "content": "s", "name": "n"},
            {"role": "developer", "content": "d", "tools": [TOOL]},
            {"role": "user", "content": PARTS},
            {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning_content": "r"},
            {"role": "tool", "content": "x", "tool_call_id": "1"},
        ],
        "tools": [TOOL],
        "kv_transfer_params": {"prompt_token_ids": [1, 2]},
        "temperature": 1,
    },
    {"prompt": ["x", "y"], "max_tokens": 5, "stop": ["a"]},
    {"prompt": [[1, 2], [3]]},
    {"input": [[{"role": "user", "content": "x"}]], "dimensions": 3},
    {"text": "x", "key": 1},
    {
        "custom_id": "c",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"messages": [{"role": "user", "content": "x"}], "model": "m"},
    },
    {
        "custom_id": "a-0",
        "error": {},
        "stage": "fit",
        "prompt_index": 0,
        "request": {"prompt": ["x", "y"], "id": "a"},
        "raw": {"text": "{}"},
    },
]
NAMES = sorted(
    {*fields.CHAT, *fields.COMPLETION, *fields.EMBEDDING, *fields.PROMPTS}
    | {"role", "content", "tool_calls", "function", "arguments", "name", "type", "reasoning"}
    | {"image_url", "image_embeds", "url", "uri", "body", "request", "raw", "error", "stage"}
    | {"text", "key", "system", "columnar"}
)
any_text = st.text(st.characters(codec=None, exclude_categories=()), max_size=8)
keys = st.sampled_from(NAMES) | any_text
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    any_text,
    st.sampled_from(["user", "assistant", "text", "5", "true", "/v1/completions", "function"]),
)
any_json = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=25,
)
any_cell = st.recursive(
    scalars | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


def containers(value: Any) -> list[Any]:
    """Every object and list in a value, itself included."""
    if not isinstance(value, dict | list):
        return []
    children = value.values() if isinstance(value, dict) else value
    return [value, *(inner for child in children for inner in containers(child))]


@st.composite
def mutated_rows(draw: st.DrawFn) -> dict[str, Any]:
    """A good row with a few values replaced, added or taken away."""
    row = copy.deepcopy(draw(st.sampled_from(ROWS)))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(containers(row)))
        if isinstance(place, list):
            place.insert(draw(st.integers(0, len(place))), draw(any_json))
        elif place and draw(st.booleans()):
            key = draw(st.sampled_from(sorted(place)))
            if draw(st.booleans()):
                place[key] = draw(any_json)
            else:
                del place[key]
        else:
            place[draw(keys)] = draw(any_json)
    return row


def check(row: RawRow, options: JobOptions) -> None:
    before = repr(row.data)
    found = parse_row(row, options)
    assert repr(row.data) == before
    rejects = [item for item in found if isinstance(item, Reject)]
    assert not rejects or len(found) == 1
    for reject in rejects:
        assert reject.error.code in CODES
        assert reject.error.stage is Stage.PARSE
        assert reject.custom_id
        reject.error.message.encode()
    ids = [item.custom_id for item in found]
    assert len(set(ids)) == len(ids)


options = st.sampled_from(OPTIONS)


@given(st.dictionaries(keys, any_json) | any_json, options)
def test_any_json(value: Any, options: JobOptions) -> None:
    check(RawRow("f", 0, json.dumps(value).encode()), options)


@given(mutated_rows(), options)
def test_mutated_rows(value: dict[str, Any], options: JobOptions) -> None:
    check(RawRow("f", 0, json.dumps(value).encode()), options)


@given(mutated_rows() | st.dictionaries(keys, any_cell), options)
def test_columnar_rows(value: dict[str, Any], options: JobOptions) -> None:
    check(RawRow("f", 0, value), options)


@given(mutated_rows(), st.sampled_from([Endpoint.CHAT, Endpoint.COMPLETION, Endpoint.EMBEDDING]))
def test_any_body(value: dict[str, Any], endpoint: Endpoint) -> None:
    try:
        parsed = parse_body(value, endpoint)
    except RowError:
        return
    assert isinstance(parsed, ParsedBody)
    assert parsed.prompts


@given(st.binary(), options)
def test_any_bytes(line: bytes, options: JobOptions) -> None:
    check(RawRow("f", 0, line), options)


@given(st.sampled_from(ROWS), st.integers(0), st.binary(max_size=3), options)
def test_damaged_lines(value: dict[str, Any], at: int, damage: bytes, options: JobOptions) -> None:
    line = json.dumps(value).encode()
    at %= len(line)
    check(RawRow("f", 0, line[:at] + damage + line[at + len(damage) :]), options)

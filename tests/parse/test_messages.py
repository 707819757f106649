"""Messages as vLLM 0.33.0's ChatCompletionRequest takes them: every answer here is its own."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptmill.pipeline.parse import messages
from promptmill.pipeline.parse.messages import rebuild_messages
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import Json, JsonObject

TEXT = {"type": "text", "text": "a"}
IMAGE = {"type": "image_url", "image_url": {"url": "http://x/a.png"}}
THINKING = {"type": "thinking", "thinking": "t"}
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CUSTOM_CALL = {"id": "1", "type": "custom", "custom": {"name": "f", "input": "x"}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}


def message(role: str, *content: object, **fields: object) -> dict[str, object]:
    return {"role": role, **({"content": content[0]} if content else {}), **fields}


ACCEPTED = [
    message("user", "x"),
    message("user", ""),
    message("user"),
    message("user", []),
    message("user", {}),
    message("user", [TEXT]),
    message("user", [TEXT, IMAGE]),
    message("user", [{**TEXT, "cache_control": {"type": "ephemeral"}}]),
    # Something recognised beside them lets the freer schema win, which takes these.
    message("user", [TEXT, "bare"]),
    message("user", [TEXT, {"type": "text", "text": 5}]),
    message("user", [TEXT, {"text": "untyped"}]),
    message("user", [TEXT, {"type": "input_text", "text": "x"}]),
    message("user", [THINKING]),
    message("user", [{"type": "refusal", "refusal": "x"}]),
    message("user", [{"type": "file", "file": {"file_id": "x"}}]),
    message("user", [{"type": "video_url", "video_url": {"url": "x"}}]),
    message("user", [{"type": "image_url", "image_url": "http://x"}]),
    message("user", [{"image_url": "http://x"}]),
    message("user", [{"type": "image_url", "image_url": None, "uuid": "u"}]),
    message("user", [{**IMAGE, "uuid": "u"}]),
    message("user", [{"type": "tool_reference", "name": "x"}]),
    message("user", "x", name="n"),
    message("user", "x", task=5),
    message("user", "x", tool_calls=[1]),
    message("user", "x", tool_calls=None, tool_call_id=None, unknown={}),
    message("system", [TEXT], name="n"),
    message("system", [THINKING]),
    message("assistant"),
    message("assistant", None),
    message("assistant", None, tool_calls=[]),
    message("assistant", None, tool_calls=[CALL]),
    message("assistant", None, tool_calls=[CUSTOM_CALL]),
    message("assistant", None, tool_calls={}),
    message("assistant", None, function_call=None, refusal=None, audio=None),
    message("assistant", None, function_call={"name": "f", "arguments": "{}"}),
    message("assistant", "x", function_call=5),
    message("assistant", "x", tool_calls=None),
    message("assistant", "x", reasoning="r"),
    message("assistant", "", reasoning=5),
    message("assistant", [THINKING, TEXT]),
    message("assistant", [TEXT], refusal=None, audio=None, function_call=None),
    message("tool", "x"),
    message("tool", "x", tool_call_id="1"),
    message("tool", "x", tool_call_id="1", name=None),
    message("tool", "x", tool_call_id=None),
    message("tool", [TEXT, TEXT], tool_call_id="1"),
    message("function", None, name="f"),
    message("function", "x"),
    message("developer", "x", tools=[TOOL]),
    message("developer", "x", tools=5),
    message("ipython"),
    message("ipython", "x"),
    message("ipython", ["a", "b"]),
    message("ipython", "x", tool_calls=[CALL]),
]

REFUSED: list[Json] = [
    5,
    {},
    {"content": "x"},
    {"role": None, "content": "x"},
    {"author": {"role": "user"}, "content": [TEXT]},
    message("user", None),
    message("user", 5),
    message("user", TEXT),
    message("user", ["bare"]),
    message("user", [1]),
    message("user", [None]),
    message("user", [{}]),
    message("user", [{"text": "untyped"}]),
    message("user", [{"type": "text", "text": 5}]),
    message("user", [{"type": "text", "text": None}]),
    message("user", [{"type": "input_text", "text": "x"}]),
    message("user", [{"type": "image"}]),
    message("user", [{"type": "image_url", "image_url": {"url": "x", "detail": "huge"}}]),
    message("user", "x", name=None),
    message("user", "x", name=5),
    message("user", "x", tool_calls=5),
    message("system", None),
    message("system", [IMAGE, 5]),
    message("system", ["bare"]),
    message("assistant", 5),
    message("assistant", None, tool_calls=None),
    message("assistant", None, reasoning=["x"], name=None),
    message("assistant", [THINKING], refusal=None, audio=None, function_call=None),
    message("assistant", "x", tool_calls=[{"id": "1", "function": CALL["function"]}]),
    message("assistant", "x", tool_calls=[{**CALL, "id": None}]),
    message("assistant", "x", tool_calls=[{**CALL, "function": {"name": "f"}}]),
    message("assistant", "x", tool_calls=[{**CALL, "function": {"name": "f", "arguments": {}}}]),
    message("assistant", "x", tool_calls=["x"]),
    message("assistant", "x", tool_calls="ab"),
    message("tool", None, tool_call_id="1"),
    message("tool", "x", tool_call_id=5),
    message("tool", ["bare"], tool_call_id="1"),
    message("function", None),
    message("ipython", None),
    message("ipython", "x", name=None),
    message("ipython", "x", tool_calls=[1]),
]


def refused(value: Json) -> RowError:
    with pytest.raises(RowError) as caught:
        rebuild_messages(value)
    return caught.value


@pytest.mark.parametrize("given", ACCEPTED, ids=json.dumps)
def test_accepted(given: Any) -> None:
    before = json.dumps(given)
    (found,) = rebuild_messages([given])
    assert json.dumps(given) == before
    assert found["role"] == given["role"]
    assert (found.get("content") or []) == (given.get("content") or [])


@pytest.mark.parametrize("given", REFUSED, ids=json.dumps)
def test_refused(given: Json) -> None:
    error = refused([message("user", "x"), given])
    assert (error.code, error.parameter) == (ErrorCode.INVALID_REQUEST, "messages")
    assert error.message.startswith("messages[1]")


@pytest.mark.parametrize("given", [None, "x", 5, {}])
def test_messages_must_be_a_list(given: Json) -> None:
    assert refused(given).parameter == "messages"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (message("user", None), "content"),
        (message("user", "x", name=5), "name"),
        (message("assistant", None, tool_calls=None), "tool_calls"),
        (message("assistant", "x", tool_calls=[CALL, 5]), "tool_calls[1]"),
        (message("tool", "x", tool_call_id=5), "tool_call_id"),
        (message("user", [TEXT, {"type": "text"}, 5]), "content[1]"),
        (message("user", [{"text": "secret"}]), "content[0]"),
    ],
)
def test_a_refusal_names_the_field_and_no_content(given: Json, name: str) -> None:
    message_text = refused([given]).message
    assert f"messages[0].{name}" in message_text
    assert "secret" not in message_text


def test_tool_calls_are_rebuilt_in_schema_order() -> None:
    call = {
        "index": 0,
        "type": "function",
        "function": {"name": "f", "zz": 1, "arguments": "{}"},
        "id": "1",
    }
    for content in (None, "x"):
        (found,) = rebuild_messages([message("assistant", content, tool_calls=[call])])
        assert json.dumps(found["tool_calls"]) == json.dumps(
            [
                {
                    "id": "1",
                    "function": {"arguments": "{}", "name": "f", "zz": 1},
                    "type": "function",
                    "index": 0,
                }
            ]
        )


SCALARS = st.sampled_from([None, "x", "", 1, True, [], {}, "function", "assistant"])
CALLS = st.dictionaries(
    st.sampled_from(["id", "type", "function", "custom", "extra"]),
    SCALARS
    | st.dictionaries(st.sampled_from(["name", "arguments", "extra"]), SCALARS)
    | st.just({"name": "f", "arguments": "{}"}),
) | st.permutations(["id", "type", "function"]).map(
    lambda keys: {
        key: {"type": "function", "function": {"name": "f", "arguments": "{}"}}.get(key, "x")
        for key in keys
    }
)


@given(
    st.dictionaries(st.sampled_from(["content", "name", "refusal", "reasoning", "audio"]), SCALARS),
    st.lists(CALLS, max_size=3) | SCALARS,
    st.sampled_from(["assistant", "user", "tool", 1]),
)
def test_the_short_way_is_the_long_way(more: JsonObject, calls: Json, role: Json) -> None:
    for message in ({"role": role, "tool_calls": calls, **more}, {**more, "tool_calls": calls}):
        short = messages._plain_caller(message)
        if short is not None:
            assert repr(short) == repr(messages._rebuild(message, "messages[0]", normalise=True))


def test_plain_calls_go_the_short_way() -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": "{}"}, "id": "x"}
    for content in (None, "hi"):
        message: JsonObject = {"tool_calls": [call], "content": content, "role": "assistant"}
        assert messages._plain_caller(message) is not None


def test_the_tools_of_a_developer_are_rebuilt_in_schema_order() -> None:
    tool = {
        "q": 1,
        "type": "function",
        "function": {"strict": "true", "parameters": {}, "description": "d", "name": "f"},
    }
    (found,) = rebuild_messages([message("developer", "x", tools=[tool])])
    function = {"name": "f", "description": "d", "parameters": {}, "strict": True}
    rebuilt = {"function": function, "type": "function", "q": 1}
    assert json.dumps(found["tools"]) == json.dumps([rebuilt])


@pytest.mark.parametrize(
    "tools", [[{"type": "function", "function": {"name": "f", "parameters": None}}], [5], "x"]
)
def test_tools_of_another_form_stay_as_they_are(tools: Json) -> None:
    (found,) = rebuild_messages([message("developer", "x", tools=tools)])
    assert found["tools"] == tools


@pytest.mark.parametrize(
    ("fields", "reasoning"),
    [
        ({"reasoning_content": "old"}, "old"),
        ({"reasoning_content": "old", "reasoning": None}, "old"),
        ({"reasoning_content": "old", "reasoning": "new"}, "new"),
        ({"reasoning_content": "old", "reasoning": ""}, ""),
        ({"reasoning_content": None}, None),
    ],
)
def test_reasoning_content_is_the_old_name_of_reasoning(
    fields: dict[str, Json], reasoning: str | None
) -> None:
    (found,) = rebuild_messages([message("assistant", "x", **fields)])
    assert found.get("reasoning") == reasoning
    assert "reasoning_content" not in found
    (kept,) = rebuild_messages([message("assistant", "x", **fields)], normalise=False)
    assert kept == message("assistant", "x", **fields)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_embeds", "image_embeds": "x"},
        {"type": "prompt_embeds", "data": "x"},
        {"video_embeds": {"a": "b"}},
        {"image_pil": None, "uuid": "u"},
        {"type": "tool_use", "id": "1", "name": "f", "input": {}},
        {"type": "tool_result", "tool_use_id": "1", "content": "x"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x"}},
    ],
)
def test_parts_that_only_others_can_render(part: Json) -> None:
    assert refused([message("user", [TEXT, part])]).code is ErrorCode.UNSUPPORTED_REQUEST
    assert refused([message("user", [part])]).code is ErrorCode.UNSUPPORTED_REQUEST


def test_reasoning_that_is_a_tensor_is_unsupported() -> None:
    reasoning = {"type": "prompt_embeds", "data": "x"}
    error = refused([message("assistant", "x", reasoning=reasoning)])
    assert error.code is ErrorCode.UNSUPPORTED_REQUEST


@pytest.mark.parametrize("kind", [[], {}, 5, True])
def test_odd_types_of_parts_raise_nothing_else(kind: Json) -> None:
    refused([message("user", [{"type": kind, "text": "x"}])])
    rebuild_messages([message("user", [TEXT, {"type": kind, "image_embeds": 1}])])

"""Bodies as vLLM 0.33.0's request models take them."""

import json
from typing import Any

import pytest

from promptmill.pipeline.parse.body import ParsedBody, parse_body
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import Json, JsonObject
from promptmill.schemas.request import (
    Budget,
    ChatPrompt,
    Endpoint,
    TextPrompt,
    TokensPrompt,
)

MESSAGES: list[Json] = [{"role": "user", "content": "x"}]
TOOL: JsonObject = {"type": "function", "function": {"name": "f"}}


def chat(**given: Any) -> ParsedBody:
    return parse_body({"messages": MESSAGES, **given}, Endpoint.CHAT)


def completion(**given: Any) -> ParsedBody:
    return parse_body({"prompt": "x", **given}, Endpoint.COMPLETION)


def embedding(**given: Any) -> ParsedBody:
    return parse_body(given, Endpoint.EMBEDDING)


def chat_prompt(parsed: ParsedBody) -> ChatPrompt:
    (prompt,) = parsed.prompts
    assert isinstance(prompt, ChatPrompt)
    return prompt


def error_of(call: Any, /, *args: Any, **given: Any) -> RowError:
    with pytest.raises(RowError) as caught:
        call(*args, **given)
    return caught.value


def test_fields_go_where_they_belong() -> None:
    prompt_fields: JsonObject = {
        "chat_template": "t",
        "chat_template_kwargs": {"a": 1},
        "add_generation_prompt": False,
        "continue_final_message": True,
        "documents": [{"title": "t", "text": "x"}],
        "mm_processor_kwargs": {"b": 1},
        "media_io_kwargs": {"image": {}},
    }
    budget: JsonObject = {
        "truncate_prompt_tokens": -1,
        "truncation_side": "left",
        "max_tokens": 3,
        "max_completion_tokens": 4,
        "add_special_tokens": True,
        "echo": True,
        "return_token_ids": True,
    }
    rest: JsonObject = {
        "model": "m",
        "temperature": 0.5,
        "stop": ["a"],
        "tool_choice": "auto",
        "reasoning_effort": "low",
        "response_format": {"type": "text"},
        "metadata": {"k": "v"},
        "of_our_own": [1],
    }
    ids: JsonObject = {"id": "1", "custom_id": "2"}
    nulls: JsonObject = {"seed": None, "user": None, "unknown": None}
    parsed = chat(tools=[TOOL], **prompt_fields, **budget, **rest, **ids, **nulls)
    prompt = chat_prompt(parsed)
    assert {name: getattr(prompt, name) for name in prompt_fields} == prompt_fields
    assert prompt.reasoning_effort == "low"
    assert parsed.budget == Budget(**budget)  # type: ignore[arg-type] # JSON of the right types
    assert parsed.passthrough == rest | budget


def test_what_is_not_given_is_none() -> None:
    parsed = chat()
    assert parsed.endpoint is Endpoint.CHAT
    assert parsed.budget == Budget()
    assert parsed.passthrough == {}
    prompt = chat_prompt(parsed)
    assert (prompt.add_generation_prompt, prompt.tools) == (None, None)


def test_values_are_those_the_server_would_work_with() -> None:
    parsed = chat(
        max_tokens="5", temperature="0.5", echo="yes", top_k=1.0, truncate_prompt_tokens=True
    )
    assert parsed.budget == Budget(max_tokens=5, echo=True, truncate_prompt_tokens=1)
    assert parsed.passthrough == {
        "max_tokens": 5,
        "temperature": 0.5,
        "echo": True,
        "top_k": 1,
        "truncate_prompt_tokens": 1,
    }


REFUSED_BY_BOTH: list[tuple[str, Json]] = [
    ("temperature", "hot"),
    ("max_tokens", 1.5),
    ("truncate_prompt_tokens", -2),
    ("truncate_prompt_tokens", 2**63),
    ("truncation_side", "middle"),
    ("truncation_side", "Left"),
    ("add_special_tokens", None),
    ("seed", 2**63),
    ("stop", ["a"] * 5),
    ("stop", [1]),
    ("bad_words", None),
    ("logit_bias", {"1": "x"}),
    ("priority", None),
    ("length_penalty", None),
    ("min_tokens", None),
    ("cache_salt", ""),
    ("cache_salt", "a/b"),
    ("cache_salt", "s" * 129),
    ("stream_interval", 0),
    ("routed_experts_prompt_start", -1),
    ("prompt_logprobs", "5"),
    ("prompt_logprobs", -2),
    ("thinking_token_budget", 1.0),
    ("thinking_token_budget", -2),
    ("mm_payload", "all"),
    ("vllm_xargs", {"a": None}),
    ("kv_transfer_params", []),
    ("response_format", {"type": "json_schema"}),
    ("response_format", {"type": "xml"}),
    ("structured_outputs", {"regex": "a", "choice": ["a"]}),
    ("structured_outputs", {"whitespace_pattern": "x"}),
    ("structured_outputs", "x"),
    ("repetition_detection", {"max_pattern_size": 3}),
    ("repetition_detection", {"min_pattern_size": 2}),
    ("stream_options", {"include_usage": True}),
]


@pytest.mark.parametrize(("name", "value"), REFUSED_BY_BOTH, ids=str)
@pytest.mark.parametrize("call", [chat, completion])
def test_refused_fields(call: Any, name: str, value: Json) -> None:
    error = error_of(call, **{name: value})
    assert (error.code, error.parameter) == (ErrorCode.INVALID_REQUEST, name)
    assert error.message.startswith(name)


@pytest.mark.parametrize(
    ("call", "given", "parameter"),
    [
        (chat, {"echo": None}, "echo"),
        (chat, {"documents": [{"n": 1}]}, "documents"),
        (chat, {"reasoning_effort": "extreme"}, "reasoning_effort"),
        (chat, {"media_io_kwargs": {"image": 1}}, "media_io_kwargs"),
        (chat, {"chat_template_kwargs": []}, "chat_template_kwargs"),
        (chat, {"top_logprobs": 2}, "top_logprobs"),
        (chat, {"logprob_token_ids": [1]}, "logprob_token_ids"),
        (chat, {"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
        (completion, {"n": None}, "n"),
        (completion, {"logprob_token_ids": [1]}, "logprob_token_ids"),
        (
            completion,
            {"logprob_token_ids": [1], "logprobs": 0, "echo": True, "max_tokens": 0},
            "logprob_token_ids",
        ),
    ],
)
def test_refused_by_one_endpoint(call: Any, given: Any, parameter: str) -> None:
    error = error_of(call, **given)
    assert (error.code, error.parameter) == (ErrorCode.INVALID_REQUEST, parameter)


@pytest.mark.parametrize(
    "given",
    [
        {"echo": None, "max_tokens": None, "logprobs": 1},
        {"logprob_token_ids": [1], "logprobs": 0, "echo": True},
        {"max_completion_tokens": "not a field of completions"},
        {"stop": ["a"] * 4, "seed": -(2**63)},
        {"stream": True, "stream_options": {"include_usage": None}},
        {"structured_outputs": {"json": {}, "unknown": 1}},
        {"response_format": {"type": "structural_tag", "format": None}},
    ],
)
def test_accepted_by_completions(given: Any) -> None:
    completion(**given)


def test_an_error_shows_short_values_only() -> None:
    assert error_of(chat, temperature="hot").value == "hot"
    assert error_of(chat, max_tokens=1.5).value == 1.5
    long = error_of(chat, temperature="confidential " * 10)
    assert long.value is None
    assert "confidential" not in long.message


@pytest.mark.parametrize(
    "flags", [(True, True), ("false", 1)], ids=["both", "what is true before conversion"]
)
def test_continuing_and_answering_exclude_each_other(flags: tuple[Json, Json]) -> None:
    given = dict(zip(("continue_final_message", "add_generation_prompt"), flags, strict=True))
    error = error_of(chat, **given)
    assert (error.code, error.parameter) == (ErrorCode.INVALID_REQUEST, None)
    assert "Cannot set both `continue_final_message` and `add_generation_prompt`" in error.message
    conversation = {"messages": MESSAGES, **given}
    assert error_of(parse_body, conversation, Endpoint.EMBEDDING).message == error.message


@pytest.mark.parametrize("call", [chat, completion])
def test_beam_search_is_unsupported(call: Any) -> None:
    assert error_of(call, use_beam_search=True).code is ErrorCode.UNSUPPORTED_REQUEST
    call(use_beam_search=False)


@pytest.mark.parametrize("choice", ["none", "auto", "required", "nonsense", 5, {"a": 1}])
def test_tool_choice_never_rejects(choice: Json) -> None:
    assert chat(tool_choice=choice).passthrough == {"tool_choice": choice}
    assert chat_prompt(chat(tools=[TOOL], tool_choice=choice)).tools is not None


def test_tools_are_dumped_as_the_server_does() -> None:
    given: list[Json] = [
        TOOL,
        {
            "defer_loading": True,
            "function": {
                "zz": 1,
                "strict": "true",
                "parameters": {"b": None, "a": 1},
                "description": "d",
                "name": "f",
            },
            "qq": 1,
        },
        {"type": "function", "function": {"name": "f", "strict": None, "defer_loading": False}},
    ]
    assert json.dumps(chat_prompt(chat(tools=given)).tools) == json.dumps(
        [
            {
                "type": "function",
                "function": {"name": "f", "description": None, "parameters": None},
            },
            {
                "type": "function",
                "function": {
                    "name": "f",
                    "description": "d",
                    "parameters": {"b": None, "a": 1},
                    "strict": True,
                    "defer_loading": True,
                },
                "defer_loading": True,
            },
            {
                "type": "function",
                "function": {
                    "name": "f",
                    "description": None,
                    "parameters": None,
                    "defer_loading": False,
                },
            },
        ]
    )
    assert chat_prompt(chat(tools=None)).tools is None


@pytest.mark.parametrize(
    "tools",
    [
        [],
        {},
        "x",
        [5],
        [{"type": "function"}],
        [{"type": "custom", "custom": {"name": "f"}}],
        [{"type": None, "function": {"name": "f"}}],
        [{"function": {"name": None}}],
        [{"function": {"name": "f", "parameters": []}}],
        [{"function": {"name": "f", "description": 5}}],
        [{"function": {"name": "f", "strict": "maybe"}}],
        [{"function": {"name": "f"}, "defer_loading": "maybe"}],
    ],
)
def test_refused_tools(tools: Json) -> None:
    error = error_of(chat, tools=tools)
    assert (error.code, error.parameter) == (ErrorCode.INVALID_REQUEST, "tools")


TEXTS_AND_IDS: list[tuple[Json, list[TextPrompt | TokensPrompt]]] = [
    ("x", [TextPrompt("x")]),
    (["x", ""], [TextPrompt("x"), TextPrompt("")]),
    (["5"], [TextPrompt("5")]),
    ([1, 2], [TokensPrompt([1, 2])]),
    ([1, "2", 3.0, True], [TokensPrompt([1, 2, 3, 1])]),
    ([[1], [2, 3]], [TokensPrompt([1]), TokensPrompt([2, 3])]),
    ([[]], [TokensPrompt([])]),
]


@pytest.mark.parametrize(("value", "prompts"), TEXTS_AND_IDS, ids=str)
def test_prompts(value: Json, prompts: list[TextPrompt | TokensPrompt]) -> None:
    assert completion(prompt=value).prompts == prompts
    assert embedding(input=value).prompts == prompts


@pytest.mark.parametrize(
    ("given", "code", "fact"),
    [
        ({"prompt": []}, ErrorCode.EMPTY_PROMPT, "at least one prompt"),
        ({"prompt": ""}, ErrorCode.EMPTY_PROMPT, "provided and non-empty"),
        ({"prompt": None}, ErrorCode.EMPTY_PROMPT, "provided and non-empty"),
        ({"prompt": [1, -1]}, ErrorCode.INVALID_REQUEST, "-1"),
        ({"prompt": [[1], [-7]]}, ErrorCode.INVALID_REQUEST, "-7"),
        ({"prompt": [1, "a"]}, ErrorCode.INVALID_REQUEST, "only ids"),
        ({"prompt": [[1], "a"]}, ErrorCode.INVALID_REQUEST, "only ids"),
        ({"prompt": [None]}, ErrorCode.INVALID_REQUEST, "only ids"),
        ({"prompt": {}}, ErrorCode.INVALID_REQUEST, "must be a string"),
        ({"prompt": ["x"] * 1025}, ErrorCode.INVALID_REQUEST, "1025"),
        ({"prompt_embeds": "x"}, ErrorCode.UNSUPPORTED_REQUEST, "prompt_embeds"),
        ({"suffix": "x"}, ErrorCode.UNSUPPORTED_REQUEST, "suffix is only supported for"),
    ],
)
def test_refused_prompts(given: Any, code: ErrorCode, fact: str) -> None:
    error = error_of(completion, **given)
    assert (error.code, error.parameter) == (code, next(iter(given)))
    assert fact in error.message


def test_a_long_prompt_of_ids_is_one_prompt() -> None:
    assert completion(prompt=list(range(5000))).prompts == [TokensPrompt(list(range(5000)))]


def test_embedding_bodies() -> None:
    assert embedding(input=[1, -1]).prompts == [TokensPrompt([1, -1])]
    error = error_of(embedding, input=[])
    assert (error.code, error.parameter) == (ErrorCode.EMPTY_PROMPT, "input")
    assert error_of(embedding, input=None).parameter == "input"
    assert error_of(embedding, input="x", normalize=True).parameter == "normalize"
    assert error_of(embedding, input="x", task="score").parameter == "task"
    assert error_of(embedding, input="x", padding="longest").parameter == "padding"
    parsed = embedding(input="x", dimensions="8", max_tokens="unknown here")
    assert parsed.passthrough == {"dimensions": 8, "max_tokens": "unknown here"}
    assert parsed.budget == Budget()


@pytest.mark.parametrize("key", ["messages", "input"])
def test_conversations_to_embed(key: str) -> None:
    one = embedding(**{key: MESSAGES})
    assert one.endpoint is Endpoint.EMBEDDING
    assert one.prompts == [ChatPrompt(MESSAGES, add_generation_prompt=False)]  # type: ignore[arg-type] # JSON
    assert one.budget == Budget(add_special_tokens=False)
    several = embedding(**{key: [MESSAGES, MESSAGES]}, add_generation_prompt=True, tools=[TOOL])
    assert [p.add_generation_prompt for p in several.prompts if isinstance(p, ChatPrompt)] == [
        True,
        True,
    ]
    assert error_of(embedding, **{key: [MESSAGES, []]}).parameter == "messages"


def test_fields_that_embeddings_do_not_know_change_no_prompt() -> None:
    parsed = embedding(messages=MESSAGES, reasoning_effort="low", documents=[{"a": "b"}])
    prompt = chat_prompt(parsed)
    assert (prompt.reasoning_effort, prompt.documents) == (None, None)


class TestForwardedIds:
    def test_are_the_prompt_and_are_not_cut(self) -> None:
        transfer = {"prompt_token_ids": [1, 2], "remote": "h"}
        parsed = chat(kv_transfer_params=transfer, truncate_prompt_tokens=1, max_tokens=2)
        assert parsed.endpoint is Endpoint.CHAT
        assert parsed.prompts == [TokensPrompt([1, 2])]
        assert parsed.budget == Budget(max_tokens=2)
        assert parsed.passthrough["kv_transfer_params"] == {"remote": "h"}
        assert transfer == {"prompt_token_ids": [1, 2], "remote": "h"}

    @pytest.mark.parametrize(
        "given",
        [
            {"echo": True},
            {"messages": [{"role": "user", "content": [{"image_url": "http://x"}]}]},
        ],
    )
    def test_are_dropped_where_the_messages_are_needed(self, given: Any) -> None:
        parsed = chat(kv_transfer_params={"prompt_token_ids": [1]}, **given)
        chat_prompt(parsed)
        assert parsed.passthrough["kv_transfer_params"] == {}

    @pytest.mark.parametrize("ids", [[], [-1], [True], ["1"], "1", 5, {}])
    def test_must_be_ids(self, ids: Json) -> None:
        error = error_of(chat, kv_transfer_params={"prompt_token_ids": ids})
        assert error.parameter == "kv_transfer_params.prompt_token_ids"

    def test_null_is_as_absent(self) -> None:
        transfer = {"prompt_token_ids": None}
        assert chat(kv_transfer_params=transfer).passthrough == {"kv_transfer_params": transfer}


def test_a_top_level_system_is_warned_of() -> None:
    (warning,) = chat(system="be brief").warnings
    assert warning.startswith("system")
    assert chat(system=None).warnings == ()

from typing import Any

import pytest

from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.options import Task

USER = {"role": "user", "content": "Hi"}
ANSWER = {"role": "assistant", "content": "Once  "}
TOOL = {"type": "function", "function": {"name": "f", "description": None, "parameters": None}}
SHOW = "{{ messages[0].content }}|{{ x }}|{{ y }}|{{ add_generation_prompt }}|{{ enable_thinking }}"


def shown(chat: Any, template: str, row: dict[str, Any] | None = None, **options: Any) -> str:
    text = chat(USER, template=template, row=row, **options).text
    assert isinstance(text, str)
    return text


def test_later_ones_win(chat) -> None:
    row = {"chat_template_kwargs": {"x": "row", "unused": 1}}
    server = {"default_chat_template_kwargs": {"x": "server", "y": "server"}}
    job = {"chat_template_kwargs": {"x": "job"}}
    assert shown(chat, "{{ x }}{{ y }}", None, **server) == "serverserver"
    assert shown(chat, "{{ x }}{{ y }}", None, **server, **job) == "jobserver"
    assert shown(chat, "{{ x }}{{ y }}", row, **server, **job) == "rowserver"


def test_none_and_auto_replace_nothing(chat) -> None:
    row = {"chat_template_kwargs": {"x": None, "y": "auto"}}
    server = {"default_chat_template_kwargs": {"x": 1, "y": 2}}
    assert shown(chat, "{{ x }}{{ y }}", row, **server) == "12"


@pytest.mark.parametrize(
    ("task", "asked", "wanted"),
    [
        (Task.GENERATE, None, "True"),
        (Task.TRAIN, None, "False"),
        (Task.POOLING, None, "False"),
        (Task.TRAIN, True, "True"),
        (Task.GENERATE, False, "False"),
    ],
)
def test_the_task_settles_the_generation_prompt(
    chat, task: Task, asked: bool | None, wanted: str
) -> None:
    row = {
        "add_generation_prompt": asked,
        "chat_template_kwargs": {"add_generation_prompt": "never taken"},
    }
    template = "{{ add_generation_prompt }}"
    assert shown(chat, template, row, task=task, with_mask=False) == wanted


@pytest.mark.parametrize(
    ("effort", "kwargs", "seen"),
    [
        (None, None, "|"),
        ("high", None, "high|True"),
        ("none", None, "none|False"),
        ("low", {"enable_thinking": False}, "low|False"),
        ("low", {"enable_thinking": None}, "low|True"),
        (None, {"reasoning_effort": "max"}, "max|"),
    ],
)
def test_reasoning_effort_switches_thinking(
    chat, effort: str | None, kwargs: dict[str, Any] | None, seen: str
) -> None:
    row = {"reasoning_effort": effort, "chat_template_kwargs": kwargs}
    assert shown(chat, "{{ reasoning_effort }}|{{ enable_thinking }}", row) == seen


def test_tools_in_the_arguments_replace_the_row_s(chat) -> None:
    row = {"tools": [TOOL], "chat_template_kwargs": {"tools": [{"other": 1}]}}
    assert shown(chat, "{{ tools | tojson }}", row) == '[{"other": 1}]'
    assert shown(chat, "{{ tools | tojson }}", {"tools": [TOOL]}) == (
        '[{"type": "function", "function": {"name": "f", "description": null, "parameters": null}}]'
    )
    assert shown(chat, "{{ tools }}|{{ documents }}") == "None|None"


def test_arguments_may_replace_special_tokens(chat) -> None:
    assert shown(chat, "{{ eos_token }}") == "<|im_end|>"
    assert shown(chat, "{{ eos_token }}", {"chat_template_kwargs": {"eos_token": "E"}}) == "E"


def test_tokenize_hides_the_text(chat) -> None:
    rendered = chat(USER, row={"chat_template_kwargs": {"tokenize": True}})
    assert rendered.hide_text
    assert not chat(USER).hide_text


def test_sanitizing_is_escaping(chat) -> None:
    kwargs = {"sanitize_control_tokens": True, "tokenize": True}
    message = {"role": "user", "content": "x<|im_end|>y"}
    rendered = chat(message, row={"chat_template_kwargs": kwargs})
    assert rendered.hide_text
    assert [rendered.text[a:b] for a, b in rendered.special_ranges] == [
        "<|im_start|>",
        "<|im_end|>",
        "<|im_start|>",
    ]


@pytest.mark.parametrize(
    ("kwargs", "reason"),
    [
        ({"conversation": []}, "got multiple values for argument 'conversation'"),
        ({"messages": []}, "got multiple values for keyword argument 'messages'"),
        ({"return_assistant_tokens_mask": True}, "requires `return_dict=True`"),
        ({"sanitize_control_tokens": True}, "requires `tokenize=True`"),
        ({"tools": ["f"]}, "Tools should either be a JSON schema"),
        ({"tools": 3}, "'int' object is not iterable"),
        ({"documents": [1]}, "Documents should be a list of dicts"),
    ],
)
def test_arguments_that_the_server_refuses(chat, kwargs: dict[str, Any], reason: str) -> None:
    with pytest.raises(RowError) as caught:
        chat(USER, row={"chat_template_kwargs": kwargs})
    assert reason in caught.value.message
    assert caught.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", ["padding", "truncation", "max_length", "return_tensors"])
def test_arguments_of_the_tokenizer(chat, name: str) -> None:
    plain = chat(USER).text
    assert chat(USER, row={"chat_template_kwargs": {name: 5}}).text == plain
    with pytest.raises(RowError) as caught:
        chat(USER, row={"chat_template_kwargs": {name: 5, "tokenize": True}})
    assert caught.value.code is ErrorCode.UNSUPPORTED_REQUEST


def test_messages_not_read_by_the_template_are_no_conflict(chat) -> None:
    assert shown(chat, "x", {"chat_template_kwargs": {"messages": []}}) == "x"


CONTINUE = {"continue_final_message": True, "add_generation_prompt": False}
PLAIN = "{% for m in messages %}[{{ m.content }}]{% endfor %}"
TRIMMED = "{% for m in messages %}[{{ m.content | trim }}]{% endfor %}"
PARTS = "{% for m in messages %}{% for p in m.content %}{{ p.text }},{% endfor %};{% endfor %}"


@pytest.mark.parametrize(
    ("template", "text"),
    [(PLAIN, "[Hi][Once  "), (TRIMMED, "[Hi][Once"), (PARTS, "Hi,;Once  ")],
)
def test_the_final_message_is_continued(chat, template: str, text: str) -> None:
    assert chat(USER, ANSWER, template=template, row=CONTINUE).text == text


@pytest.mark.parametrize(
    ("template", "row", "reason"),
    [
        (PLAIN, {"continue_final_message": True}, "add_generation_prompt are not compatible"),
        ("{{ messages[-1]['role'] }}", CONTINUE, "not an accepted field in the chat_template"),
        ("{{ messages[0].content }}", CONTINUE, "does not appear in the chat"),
    ],
)
def test_what_cannot_be_continued(chat, template: str, row: dict[str, Any], reason: str) -> None:
    with pytest.raises(RowError, match=reason):
        chat(USER, ANSWER, template=template, row=row)


def test_no_text_to_continue(chat) -> None:
    empty = {"role": "assistant", "content": []}
    with pytest.raises(RowError, match="could not find any text to continue"):
        chat(USER, empty, template=PARTS, row=CONTINUE)


def test_no_messages(chat) -> None:
    with pytest.raises(RowError, match="empty conversation"):
        chat()

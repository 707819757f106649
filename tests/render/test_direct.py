"""Templates written as functions write what Jinja writes, or are not taken."""

import json
import logging
import pickle
from collections.abc import Callable, Mapping
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptmill.pipeline.engines.base import EngineMismatch
from promptmill.pipeline.render import direct
from promptmill.pipeline.render.direct import Direct, written_directly
from promptmill.pipeline.render.environment import TemplateEnvironment
from promptmill.pipeline.render.guard import GuardedRenderer
from promptmill.pipeline.render.hf import HfRenderer
from promptmill.pipeline.render.template import ChatTemplate
from promptmill.pipeline.render.written import WRITTEN, Written
from promptmill.schemas.options import EngineName
from promptmill.schemas.request import Request

CLOCK = datetime.fromisoformat("2026-01-15T12:00:00")
LINES = "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}"
"""A template of ours, which functions of the tests stand for."""
CHAT = {"messages": [{"role": "user", "content": "hi"}], "tools": None}


def lines(given: Mapping[str, Any]) -> str | None:
    return "".join(f"{m['role']}: {m['content']}\n" for m in given["messages"])


def wrong_for_tests(given: Mapping[str, Any]) -> str | None:
    text = lines(given)
    return text + "wrong" if text and "secret" in text else text


def plain(source: str = LINES) -> ChatTemplate:
    return TemplateEnvironment(CLOCK).compile(source)


def template_with(monkeypatch: pytest.MonkeyPatch, written: Written) -> None:
    made = {sha256(LINES.encode()).hexdigest(): lambda plain: written}
    monkeypatch.setattr(direct, "WRITTEN", made)


def test_a_template_that_is_written_as_a_function_is_run_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    template_with(monkeypatch, lines)
    template = TemplateEnvironment(CLOCK, direct=True).compile(LINES)
    assert template.direct is not None
    assert template.render(CHAT) == "user: hi\n"
    assert plain().direct is None
    assert TemplateEnvironment(CLOCK, direct=True).compile(LINES + " ").direct is None


@pytest.mark.parametrize("content", [None, 3, ["x"]])
def test_what_a_function_cannot_do_is_left_to_jinja(
    monkeypatch: pytest.MonkeyPatch, content: Any
) -> None:
    def picky(given: Mapping[str, Any]) -> str | None:
        return "".join(m["role"] + ": " + m["content"] + "\n" for m in given["messages"])

    template_with(monkeypatch, picky)
    template = TemplateEnvironment(CLOCK, direct=True).compile(
        LINES.replace("m.content", "m.content | string")
    )
    chat = {**CHAT, "messages": [{"role": "user", "content": content}]}
    assert template.render(chat) == f"user: {content}\n"


@pytest.mark.parametrize("wrong", [lambda given: "", lambda given: lines(given) + " "])
def test_a_function_that_differs_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, wrong: Written
) -> None:
    template_with(monkeypatch, wrong)
    with caplog.at_level(logging.ERROR):
        assert TemplateEnvironment(CLOCK, direct=True).compile(LINES).direct is None
    assert "does not write what its template does" in caplog.text


def test_a_template_that_refuses_what_its_function_writes_differs() -> None:
    template = plain(LINES + "{{ raise_exception('no') if messages | length > 2 }}")
    made = Direct(lines, lambda variables: "".join(template.run(variables)))
    assert not made.agrees()


def test_a_sampled_row_that_differs_stops_the_function() -> None:
    template = plain()
    made = Direct(wrong_for_tests, template.render, every=5, first=0)
    for n in range(50):
        made.render({"messages": [{"role": "user", "content": f"row {n}"}]})
    secret = ({"messages": [{"role": "user", "content": f"secret {n}"}]} for n in range(200))
    with pytest.raises(EngineMismatch, match="Jinja") as caught:
        list(map(made.render, secret))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_the_first_rows_are_compared() -> None:
    made = Direct(wrong_for_tests, plain().render, every=10**9, first=2)
    made.render(CHAT)
    with pytest.raises(EngineMismatch):
        made.render({"messages": [{"role": "user", "content": "secret"}]})
    assert (
        made.render({"messages": [{"role": "user", "content": "secret"}]}) == "user: secret\nwrong"
    )


@pytest.mark.parametrize("timeout", [0, 30])
def test_a_difference_goes_through_the_guard(
    monkeypatch: pytest.MonkeyPatch,
    make_renderer: Callable[..., HfRenderer],
    make_request: Callable[..., Request],
    timeout: float,
) -> None:
    template_with(monkeypatch, wrong_for_tests)
    request = make_request({"role": "user", "content": "secret"})
    guarded = GuardedRenderer(make_renderer(LINES), timeout)
    with pytest.raises(EngineMismatch):
        guarded.render_batch([request, request])
    reference = make_renderer(LINES, engine=EngineName.TOKENIZERS)
    (rendered,) = GuardedRenderer(reference, timeout).render_batch([request])
    assert getattr(rendered, "text", None) == "user: secret\n"


@pytest.fixture(scope="module")
def qwen3(models: Path) -> Direct:
    """The function and the template of the model."""
    source = json.loads((models / "qwen3" / "tokenizer_config.json").read_text())["chat_template"]
    template = TemplateEnvironment(CLOCK).compile(source)
    written = WRITTEN[sha256(source.encode()).hexdigest()](template.render)
    assert written_directly(source, template.render) is not None
    return Direct(written, template.render, every=1)


TEXT = st.lists(
    st.sampled_from(
        ["<think>", "</think>", "<tool_response>", "</tool_response>", "\n", " ", "x", "é", "{}"]
    ),
    max_size=6,
).map("".join)
CALL = st.fixed_dictionaries(
    {"name": TEXT, "arguments": TEXT | st.dictionaries(TEXT, st.integers() | TEXT, max_size=2)}
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "assistant", "tool", "system", "else"])}
    | {"content": TEXT},
    optional={
        "reasoning_content": st.none() | TEXT,
        "tool_calls": st.none()
        | st.lists(CALL | st.fixed_dictionaries({"function": CALL}), max_size=2),
    },
)


@given(
    messages=st.lists(MESSAGE, min_size=1, max_size=6),
    tools=st.none() | st.lists(st.dictionaries(TEXT, TEXT), max_size=2),
    prompt=st.booleans(),
    more=st.sampled_from([{}, {"enable_thinking": True}, {"enable_thinking": False}]),
)
def test_qwen3_is_written_as_jinja_writes_it(
    qwen3: Direct, messages: list[Any], tools: list[Any] | None, prompt: bool, more: dict[str, Any]
) -> None:
    chat = {"messages": messages, "tools": tools, "documents": None, **more}
    chat["add_generation_prompt"] = prompt
    assert qwen3.render(chat) is not None  # compared: every row is a sample


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": None},
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "assistant", "content": "a", "tool_calls": [{"name": 3, "arguments": {}}]},
        {"role": "assistant", "content": "a", "tool_calls": [{"arguments": {}}]},
        {"role": "assistant", "content": "a", "reasoning_content": ["b"]},
        {"role": "user"},
    ],
)
def test_what_qwen3_was_not_written_for_is_left_to_jinja(
    qwen3: Direct, message: dict[str, Any]
) -> None:
    messages = [{"role": "user", "content": "hi"}, message]
    chat = {"messages": messages, "tools": None, "add_generation_prompt": True}
    assert qwen3.render(chat) is None


def test_no_messages_at_all_are_left_to_jinja(qwen3: Direct) -> None:
    assert qwen3.render({"messages": [], "tools": None, "add_generation_prompt": True}) is None

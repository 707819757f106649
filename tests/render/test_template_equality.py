"""Real templates render as transformers renders them."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from jinja2 import TemplateError
from transformers.utils import chat_template_utils

from promptmill.pipeline.render.environment import TemplateEnvironment
from promptmill.schemas.errors import RowError

CLOCK = datetime.fromisoformat("2026-01-15T12:00:00")
SPECIAL = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
    "image_token": "<image>",
}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Wetter — 天気 & 'more' <b>",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Name"},
                "days": {"type": ["integer", "null"], "default": 3},
                "unit": {"type": "string", "enum": ["c", "f"]},
                "more": {"type": "array", "items": {"type": "object", "properties": {"a": {}}}},
            },
            "required": ["city"],
        },
    },
}
CALL = {
    "id": "call00001",
    "type": "function",
    "function": {"name": "get_weather", "arguments": {"city": "Köln", "days": 2, "more": [{}]}},
}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **fields}


def parts(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in texts]


SYSTEM = {"role": "system", "content": " Be brief.\n"}
TOOL_RESULT = {"role": "tool", "tool_call_id": "call00001", "content": '{"t": 18}'}
THOUGHT = assistant(
    "<think>\nhm\n</think>\n\nYes.", reasoning="first this", reasoning_content="first this"
)
CHATS: dict[str, dict[str, Any]] = {
    "one": {"messages": [user("Hi  ")]},
    "system": {"messages": [SYSTEM, user("Hi"), assistant("Hello!\n"), user("2+2?")]},
    "ends_in_assistant": {"messages": [user("Hi"), assistant(" Hello ")]},
    "thoughts": {"messages": [user("a"), THOUGHT, user("b"), THOUGHT]},
    "tools": {"messages": [SYSTEM, user("Weather?")], "tools": [TOOL, TOOL]},
    "tool_round": {
        "messages": [
            user("Weather?"),
            assistant("", tool_calls=[CALL]),
            TOOL_RESULT,
            assistant("18 degrees"),
            user("Thanks 🏳️‍🌈"),
        ],
        "tools": [TOOL],
    },
    "parts": {
        "messages": [
            {"role": "system", "content": parts("S")},
            user([*parts("one", "two"), {"type": "image"}]),
            assistant(parts("three")),
            user(parts("")),
        ]
    },
    "odd": {"messages": [{"role": "wizard", "content": "x"}, user("y"), user("z")]},
    "switches": {
        "messages": [user("q")],
        "enable_thinking": False,
        "reasoning_effort": "low",
        "documents": [{"title": "T", "text": "D"}],
    },
}


class FixedTime(datetime):
    @classmethod
    def now(cls, tz: Any = None) -> "FixedTime":
        return cls(*CLOCK.timetuple()[:6], tzinfo=tz)


@pytest.fixture(autouse=True)
def fixed_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template_utils, "datetime", FixedTime)


@pytest.fixture(scope="module")
def templates() -> TemplateEnvironment:
    return TemplateEnvironment(CLOCK)


def theirs(template: str, chat: dict[str, Any], *, generate: bool) -> str:
    """What transformers writes, or what it fails with."""
    given = {"tools": None, "documents": None, **SPECIAL, **chat}
    messages = given.pop("messages")
    try:
        rendered, _ = chat_template_utils.render_jinja_template(
            [messages], chat_template=template, add_generation_prompt=generate, **given
        )
    except Exception as error:
        message = error.message if isinstance(error, TemplateError) else error
        return without_call(f"failed: {message}")
    return str(rendered[0])


def ours(
    templates: TemplateEnvironment, template: str, chat: dict[str, Any], *, generate: bool
) -> str:
    given = {"tools": None, "documents": None, **SPECIAL, **chat}
    try:
        return templates.compile(template).render({**given, "add_generation_prompt": generate})
    except RowError as error:
        return without_call(error.message.replace("The chat template failed: ", "failed: "))


def without_call(message: str) -> str:
    """How far a recursion was, and thus in what call it ended, is not the template's."""
    return message.split(" while calling")[0]


@pytest.mark.parametrize(
    "family", ["axolotl", "chujiezheng", "llama.cpp", "mistral.rs", "trl", "vllm"]
)
def test_real_templates(templates: TemplateEnvironment, shared: Path, family: str) -> None:
    files = sorted((shared / "data" / "templates" / family).glob("*.jinja"))
    assert files
    for file in files:
        template = file.read_text(encoding="utf-8")
        for number, (label, chat) in enumerate(CHATS.items()):
            generate = number % 2 == 0
            want = theirs(template, chat, generate=generate)
            got = ours(templates, template, chat, generate=generate)
            assert got == want, f"{file.name}: {label}"


def cases(shared: Path) -> Iterator[dict[str, Any]]:
    for path in sorted((shared / "data" / "template_cases").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def test_template_cases(templates: TemplateEnvironment, shared: Path) -> None:
    """The cases were written for another engine; those that Python renders otherwise, Python
    decides. Most agree with their target."""
    agreeing = 0
    for case in cases(shared):
        data = {"messages": [], **case["data"]}
        generate = bool(data.pop("add_generation_prompt", False))
        want = theirs(case["chat_template"], data, generate=generate)
        got = ours(templates, case["chat_template"], data, generate=generate)
        assert got == want, case["id"]
        agreeing += got == case["target"]
    assert agreeing > 120

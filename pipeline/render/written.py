"""Chat templates that many models share, written as functions: Jinja takes five times as long.

Each stands for one published text, known by its hash, and does what that text does for messages
as `conversation.py` makes them of plain text. For anything else it gives None, or raises what
Python raises for other types, and Jinja has the word. `direct.py` compares before it trusts.
Sentences that a template puts around tools are not repeated here: Jinja is asked for them once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from promptmill.pipeline.render.to_json import to_json

Written: TypeAlias = Callable[[Mapping[str, Any]], str | None]
"""The prompt from the variables of a template; None where it is not for this function.

`Any`, as in a template: what is not of the right type ends in an error of Python's.
"""
Plain: TypeAlias = Callable[[Mapping[str, Any]], str]
"""The template as Jinja runs it; raises whatever templates raise."""

_SYSTEM: Final = "<|im_start|>system\n"
_USER: Final = "<|im_start|>user\n"
_ASSISTANT: Final = "<|im_start|>assistant\n"
_END: Final = "<|im_end|>\n"


def qwen3(plain: Plain) -> Written:
    """Qwen3 as of April 2025, with thinking and without."""
    user = {"role": "user", "content": ""}
    asked = plain({"messages": [user], "tools": [{}], "add_generation_prompt": False})
    head = asked.removeprefix(_SYSTEM).removesuffix(f"{_USER}{_END}")
    begin, end = head.split("\n{}")
    return lambda given: _qwen3(given, begin, end)


def _qwen3(given: Mapping[str, Any], tools_begin: str, tools_end: str) -> str | None:
    messages = given["messages"]
    for message in messages:
        if type(message["content"]) is not str:
            return None
    out = _qwen3_head(messages[0], given["tools"], tools_begin, tools_end)
    last, query = len(messages) - 1, _last_query(messages)
    for index, message in enumerate(messages):
        role = message["role"]
        if role == "user":
            out += _USER, message["content"], _END
        elif role == "system" and index:
            out += _SYSTEM, message["content"], _END
        elif role == "assistant":
            out += _qwen3_answer(message, after_query=index > query, last=index == last)
        elif role == "tool":
            opens = not index or messages[index - 1]["role"] != "tool"
            closes = index == last or messages[index + 1]["role"] != "tool"
            out += "<|im_start|>user" if opens else "", "\n<tool_response>\n", message["content"]
            out += "\n</tool_response>", _END if closes else ""
    if given["add_generation_prompt"]:
        out.append(_ASSISTANT)
        if given.get("enable_thinking") is False:
            out.append("<think>\n\n</think>\n\n")
    return "".join(out)


def _qwen3_head(
    first: Mapping[str, Any], tools: Any, tools_begin: str, tools_end: str
) -> list[str]:
    """The tools and the system message that comes first."""
    system = first["content"] if first["role"] == "system" else None
    if tools:
        said = [] if system is None else [system, "\n\n"]
        listed = [text for tool in tools for text in ("\n", to_json(tool))]
        return [_SYSTEM, *said, tools_begin, *listed, tools_end]
    return [] if system is None else [_SYSTEM, system, _END]


def _last_query(messages: list[Mapping[str, Any]]) -> int:
    """The index of the last user message that is no answer of a tool; without one, the last."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index]["role"] == "user":
            text = messages[index]["content"]
            if not (text.startswith("<tool_response>") and text.endswith("</tool_response>")):
                return index
    return len(messages) - 1


def _qwen3_answer(message: Mapping[str, Any], *, after_query: bool, last: bool) -> list[str]:
    content, thought = message["content"], message.get("reasoning_content")
    if thought is None:
        thought = ""
        if "</think>" in content:
            before, *_, behind = content.split("</think>")
            thought = before.rstrip("\n").split("<think>")[-1].lstrip("\n")
            content = behind.lstrip("\n")
    if after_query and (last or thought):
        out = [f"{_ASSISTANT}<think>\n", thought.strip("\n"), "\n</think>\n\n"]
        out.append(content.lstrip("\n"))
    else:
        out = [_ASSISTANT, content]
    calls = message.get("tool_calls")
    for index, call in enumerate(calls or ()):
        called = call.get("function") or call
        arguments = called["arguments"]
        out += "\n" if index or content else "", '<tool_call>\n{"name": "', called["name"]
        out += '", "arguments": ', arguments if type(arguments) is str else to_json(arguments)
        out.append("}\n</tool_call>")
    out.append(_END)
    return out


WRITTEN: Final[Mapping[str, Callable[[Plain], Written]]] = MappingProxyType(
    {"87a2728cb8dc9fe424d624542f6060ec05a1d285ebbec578bb078900e33396b5": qwen3}
)
"""By the SHA-256 of the template's text; each is made with that template in Jinja."""

"""Chats of gpt-oss models in OpenAI's harmony format, which the server writes without a template.

Profile rule (RULES 6, last bullets): templates, truncation and length checks are passed by. Only
what was checked against the server's ids is rendered: instructions first, then user and assistant
text. Tools and reasoning are refused rather than guessed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from promptmill.pipeline.render.base import MediaRules, unconverted
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.json_types import Json, JsonObject
from promptmill.schemas.options import JobOptions
from promptmill.schemas.request import (
    ApiPrompt,
    CharSpan,
    ChatPrompt,
    Endpoint,
    Rendered,
    Request,
    TextPrompt,
    TokensPrompt,
)

EFFORTS = ("low", "medium", "high")
SYSTEM = """You are ChatGPT, a large language model trained by OpenAI.
Knowledge cutoff: 2024-06
Current date: {date}

Reasoning: {effort}

# Valid channels: analysis, commentary, final. Channel must be included for every message."""


@dataclass(slots=True)
class _Script:
    """Text under construction, and which of it are control tokens."""

    text: str = ""
    controls: list[CharSpan] = field(default_factory=list)

    def control(self, name: str) -> None:
        spelling = f"<|{name}|>"
        self.controls.append((len(self.text), len(self.text) + len(spelling)))
        self.text += spelling

    def message(self, role: str, content: str, channel: str | None = None) -> None:
        self.control("start")
        self.text += role
        if channel is not None:
            self.control("channel")
            self.text += channel
        self.control("message")
        self.text += content
        self.control("end")


class HarmonyRenderer:
    """Renders requests of a gpt-oss model."""

    def __init__(
        self,
        bundle: ModelBundle,
        options: JobOptions,
        clock: datetime,
        media: MediaRules | None = None,
    ) -> None:
        self._date = clock.strftime("%Y-%m-%d")

    def admit(self, request: Request) -> None:
        """Nothing is refused this early."""

    def render(self, request: Request) -> Rendered:
        """The prompt of one request, with its control tokens as ranges.

        Raises:
            RowError: UNSUPPORTED_REQUEST for tools, reasoning and media; INVALID_REQUEST for a
                reasoning effort that harmony does not know.
        """
        match request.prompt:
            case TokensPrompt(token_ids=ids):
                return Rendered(token_ids=ids, verbatim=request.endpoint is Endpoint.CHAT)
            case TextPrompt(text=text):
                return Rendered(text=text)
            case ChatPrompt() as prompt:
                return self._chat(prompt)
            case ApiPrompt() as prompt:
                raise unconverted(prompt)

    def _chat(self, prompt: ChatPrompt) -> Rendered:
        if prompt.tools is not None:
            raise _unsupported("tools")
        script = _Script()
        script.message("system", SYSTEM.format(date=self._date, effort=_effort(prompt)))
        for position, message in enumerate(prompt.messages):
            role, content = str(message.get("role")), _text_of(message)
            if role in ("system", "developer") and position == 0:
                script.message("developer", f"# Instructions\n\n{content}")
            elif role == "user":
                script.message("user", content)
            elif role == "assistant":
                script.message("assistant", content, channel="final")
            else:
                raise _unsupported(f"a {role} message at place {position}")
        script.control("start")
        script.text += "assistant"
        return Rendered(text=script.text, special_ranges=tuple(script.controls), verbatim=True)


def _effort(prompt: ChatPrompt) -> str:
    effort = prompt.reasoning_effort or "medium"
    if effort not in EFFORTS:
        raise RowError(
            ErrorCode.INVALID_REQUEST,
            f"Harmony does not support reasoning_effort={effort!r}; it is one of "
            f"{', '.join(EFFORTS)}.",
            parameter="reasoning_effort",
            stage=Stage.RENDER,
        )
    return effort


def _text_of(message: JsonObject) -> str:
    for name in ("tool_calls", "reasoning", "reasoning_content"):
        if message.get(name):
            raise _unsupported(f"{name} of a message")
    content = message.get("content")
    return content if isinstance(content, str) else "".join(_texts(content))


def _texts(content: Json) -> Iterator[str]:
    for part in content if isinstance(content, list) else ():
        text = part.get("text") if isinstance(part, dict) else None
        if not isinstance(text, str):
            raise _unsupported("content other than text")
        yield text


def _unsupported(what: str) -> RowError:
    return RowError(
        ErrorCode.UNSUPPORTED_REQUEST,
        f"gpt-oss chats with {what} are not rendered yet: the server writes them in the harmony "
        "format, and ours is checked for plain conversations only. Send such rows to the server, "
        "or as prompts that are already rendered (prompt).",
        parameter="messages",
        stage=Stage.RENDER,
    )

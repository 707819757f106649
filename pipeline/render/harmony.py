"""Chats of gpt-oss models in OpenAI's harmony format, which the server writes without a template.

Profile rule (vLLM 0.33.0, `online_renderer.py`): templates, truncation and length checks are passed
by. Only what was checked against the server's ids is rendered: instructions first, then user and
assistant text. Tools and reasoning are refused rather than guessed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from promptmill.pipeline.render.base import MediaRules, as_given, chat_prompt
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.json_types import Json, JsonObject
from promptmill.schemas.options import JobOptions, MaskTurns, Task
from promptmill.schemas.request import (
    CharSpan,
    ChatPrompt,
    Rendered,
    Request,
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
    turns: list[CharSpan] = field(default_factory=list)
    """What assistants wrote, with the token that ends it."""

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
        start = len(self.text)
        self.text += content
        self.control("end")
        if channel is not None:
            self.turns.append((start, len(self.text)))


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
        self._options = options

    def admit(self, request: Request) -> None:
        """Nothing is refused this early."""

    def render(self, request: Request) -> Rendered:
        """The prompt of one request, with its control tokens as ranges.

        Raises:
            RowError: UNSUPPORTED_REQUEST for tools, reasoning and media; INVALID_REQUEST for a
                reasoning effort that harmony does not know.
        """
        given = as_given(request, mask_wanted=self._options.mask_wanted)
        return given or self._chat(chat_prompt(request))

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
        if prompt.add_generation_prompt or self._options.task is Task.GENERATE:
            script.control("start")
            script.text += "assistant"
        return Rendered(
            text=script.text,
            special_ranges=tuple(script.controls),
            assistant_spans=self._mask_spans(script.turns),
            verbatim=True,
        )

    def _mask_spans(self, turns: list[CharSpan]) -> tuple[CharSpan, ...] | None:
        if not self._options.mask_wanted:
            return None
        return tuple(turns[-1:] if self._options.mask is MaskTurns.LAST else turns)


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

"""Chats of DeepSeek V4 and V4.1, as the official library writes them.

The library decides the prompt and which of it are control tokens; a spelling of one that somebody
typed stays text. Two fields of vLLM's requests have a meaning here: `continue_final_message` is
the library's `prefix`, and `thinking` or `enable_thinking` among the template arguments is the mode
of rows that choose none. Without a generation prompt, a chat that ends in an assistant message is
that message as it was generated, its end token included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from promptmill.pipeline.model.deepseek_tokens import (
    ASSISTANT,
    EOS,
    THINKING,
    V41,
    added_ids,
    check_tokens,
    image_spelling,
)
from promptmill.pipeline.render.base import MediaRules, as_given
from promptmill.pipeline.render.controls import ControlSpellings
from promptmill.pipeline.render.deepseek import Converted, Recipe
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.options import JobOptions, MaskTurns, Task
from promptmill.schemas.request import (
    NO_TURN,
    Api,
    ApiPrompt,
    CharSpan,
    Rendered,
    Request,
)

_UNSUPPORTED: Final = "[Unsupported Image]"
"""What the library writes for an image in V4."""

_EFFORT: Final = "reasoning_effort"
_THINKS: Final = ("thinking", "enable_thinking")
"""Template arguments that the server's own encoder reads; the first that is given counts."""


class OfficialRenderer:
    """Renders requests of a DeepSeek model.

    Args:
        bundle: the model.
        options: the job's.
        clock: not used; no prompt tells the time.
        media: not used; the library finds the images.

    Raises:
        JobError: the library is not installed, or the tokenizer is not that of the mode.
    """

    def __init__(
        self,
        bundle: ModelBundle,
        options: JobOptions,
        clock: datetime,
        media: MediaRules | None = None,
    ) -> None:
        mode, backend = bundle.tokenizer_mode, bundle.backend or "{}"
        check_tokens(bundle.name, mode, backend)
        image = image_spelling(added_ids(backend)) if mode == V41 else None
        names = {bundle.name, bundle.name.rstrip("/").rpartition("/")[2]}
        self._recipe = Recipe(mode, names.union(options.served_model_name), image)
        self._controls = ControlSpellings(bundle)
        self._options = options

    def admit(self, request: Request) -> None:
        """Nothing is refused this early."""

    def render(self, request: Request) -> Rendered:
        """The prompt of one request, with its control tokens as ranges; see `Renderer`."""
        given = as_given(request, mask_wanted=self._options.mask_wanted)
        if given is not None:
            return given
        if isinstance(request.prompt, ApiPrompt):
            return self._conversation(_wishes(request.prompt, self._options))
        raise _refused(
            ErrorCode.UNSUPPORTED_REQUEST,
            "Conversations to embed are no requests of DeepSeek's API. Give them as chat "
            "completions, or embed texts.",
        )

    def _conversation(self, wishes: _Wishes) -> Rendered:
        converted = self._recipe.convert(wishes.api, wishes.body, thinking=wishes.thinks)
        if wishes.closes:
            converted = _closed(converted)
        warnings = [*wishes.warnings, *self._notes(converted)]
        spans: tuple[CharSpan, ...] | None = None
        if self._options.mask_wanted:
            spans = tuple(_turns(converted, continued=wishes.continues))
            if not spans:
                warnings.append(NO_TURN)
            elif self._options.mask is MaskTurns.LAST:
                spans = spans[-1:]
        return Rendered(
            text=converted.text,
            special_ranges=converted.special_ranges,
            assistant_spans=spans,
            media=converted.images,
            answer=converted.answer,
            warnings=tuple(warnings),
        )

    def _notes(self, converted: Converted) -> Iterator[str]:
        """What is worth knowing of a prompt."""
        written = set(converted.special_ranges)
        typed = sum(span not in written for span in self._controls.find(converted.text))
        if typed:
            yield f"{typed} control tokens in content, encoded as plain text"
        hidden = converted.text.count(_UNSUPPORTED)
        if hidden:
            yield f"images the model does not see: {hidden} (V4 is told {_UNSUPPORTED})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wishes:
    """A body for the library, and what of vLLM's fields it is to mean."""

    api: Api
    body: JsonObject
    thinks: bool
    """Whether the model thinks where the body does not say."""
    continues: bool
    """The last message is continued."""
    closes: bool
    """The last message is whole, and nothing is to follow."""
    warnings: tuple[str, ...]


def _wishes(prompt: ApiPrompt, options: JobOptions) -> _Wishes:
    body, own = prompt.body, prompt.body.get("chat_template_kwargs")
    given = {**options.chat_template_kwargs, **(own if isinstance(own, dict) else {})}
    kwargs = {**options.default_chat_template_kwargs, **given}
    thinks = next((kwargs[name] for name in _THINKS if isinstance(kwargs.get(name), bool)), True)
    warnings = [
        f"chat_template_kwargs {name} is ignored: DeepSeek's prompts have no such variable"
        for name in given
        if name not in {*_THINKS, _EFFORT}
    ]
    if options.chat_template is not None:
        warnings.append("--chat-template is ignored: DeepSeek's prompts are written without one")
    continues = closes = False
    if prompt.api is Api.CHAT_COMPLETIONS:
        if body.get(_EFFORT) is None and kwargs.get(_EFFORT) is not None:
            body = {**body, _EFFORT: kwargs[_EFFORT]}
        continues = body.get("continue_final_message") is True
        wanted = body.get("add_generation_prompt", options.task is not Task.TRAIN)
        closes = not continues and wanted is False and _ends_in_assistant(body)
        if continues or closes:
            body = _with_prefix(body)
    return _Wishes(
        api=prompt.api,
        body=body,
        thinks=thinks is True,
        continues=continues,
        closes=closes,
        warnings=tuple(warnings),
    )


def _ends_in_assistant(body: JsonObject) -> bool:
    messages = body.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    return isinstance(last, dict) and last.get("role") == "assistant"


def _with_prefix(body: JsonObject) -> JsonObject:
    """The body with its last message marked as one to go on with."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not _ends_in_assistant(body):
        raise _refused(
            ErrorCode.INVALID_REQUEST,
            "Cannot set `continue_final_message` to True when the last message is not from the "
            "assistant.",
        )
    last = messages[-1]
    assert isinstance(last, dict)
    return {**body, "messages": [*messages[:-1], {**last, "prefix": True}]}


def _closed(converted: Converted) -> Converted:
    """The same with the end of the last turn."""
    end = len(converted.text)
    ranges = (*converted.special_ranges, (end, end + len(EOS)))
    return replace(converted, text=converted.text + EOS, special_ranges=ranges)


def _turns(converted: Converted, *, continued: bool) -> Iterator[CharSpan]:
    """What assistant turns wrote: all behind the header and its thinking mark, with the end."""
    text = converted.text
    start: int | None = None
    header = -1
    for first, last in converted.special_ranges:
        spelling = text[first:last]
        if spelling == ASSISTANT or (spelling in THINKING and first == header):
            start = last
            header = last if spelling == ASSISTANT else -1
        elif spelling == EOS and start is not None:
            yield start, last
            start = None
    if continued and start is not None and start < len(text):
        yield start, len(text)


def _refused(code: ErrorCode, reason: str) -> RowError:
    return RowError(code, reason, parameter="messages", stage=Stage.RENDER)

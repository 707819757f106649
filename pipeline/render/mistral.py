"""Chats in tokenizer mode mistral: raw messages in, ids out, by mistral-common.

Profile rule (vLLM 0.33.0): no template, no prompt text, no offsets; what mistral-common refuses is
the row's error. Text and id prompts pass as they are.
"""

from __future__ import annotations

import copy
import json
from datetime import datetime

from promptmill.pipeline.engines.mistral import load_mistral
from promptmill.pipeline.render.base import MediaRules, as_given, chat_prompt
from promptmill.pipeline.render.conversation import ConversationBuilder
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.json_types import Json, JsonObject
from promptmill.schemas.options import ContentFormat, JobOptions, Task
from promptmill.schemas.request import (
    ChatPrompt,
    Rendered,
    Request,
)

TOOL_CALL_ID_LENGTH = 9
"""Longer ids keep their last characters, as the server cuts them."""


class MistralRenderer:
    """Renders requests of a model whose tokenizer is mistral-common's."""

    def __init__(
        self,
        bundle: ModelBundle,
        options: JobOptions,
        clock: datetime,
        media: MediaRules | None = None,
    ) -> None:
        self._tokenizer = load_mistral(bundle)
        self._options = options
        self._model = bundle.name
        self._media = media

    def admit(self, request: Request) -> None:
        """Refuse templates and their arguments.

        Raises:
            RowError: INVALID_REQUEST.
        """
        prompt = request.prompt
        if not isinstance(prompt, ChatPrompt):
            return
        given = (prompt.chat_template, prompt.chat_template_kwargs, self._options.chat_template)
        if any(value is not None for value in given):
            raise RowError(
                ErrorCode.INVALID_REQUEST,
                "chat_template is not supported for Mistral tokenizers. Leave it and "
                "chat_template_kwargs out, or use --tokenizer-mode hf.",
                parameter="chat_template",
                stage=Stage.RENDER,
            )

    def render(self, request: Request) -> Rendered:
        """The ids of a chat; text and ids as they are.

        Raises:
            RowError: TEMPLATE_ERROR with mistral-common's reason, MASK_UNAVAILABLE, or what the
                messages are refused for.
        """
        given = as_given(request, mask_wanted=self._options.mask_wanted)
        if given is not None:
            return given
        if self._options.mask_wanted:
            raise RowError(
                ErrorCode.MASK_UNAVAILABLE,
                "mistral-common does not say which ids an assistant wrote, so there is no mask. "
                "Leave it out (--no-mask), or use --tokenizer-mode hf.",
                stage=Stage.RENDER,
            )
        prompt = chat_prompt(request)
        builder = ConversationBuilder(ContentFormat.STRING, model=self._model, media=self._media)
        media = builder.build(prompt.messages).media  # the server parses for these only
        generates = prompt.add_generation_prompt
        if generates is None:
            generates = self._options.task is Task.GENERATE
        messages = [_message(message) for message in prompt.messages]
        _check_last(messages, generates=generates, continues=prompt.continue_final_message)
        effort = prompt.reasoning_effort if self._tokenizer.takes_reasoning_effort else None
        ids = self._tokenizer.encode_chat(
            messages,
            _tools(prompt.tools),
            continues=prompt.continue_final_message,
            reasoning_effort=effort,
        )
        return Rendered(token_ids=ids, media=tuple(media))


def _message(message: JsonObject) -> JsonObject:
    """As mistral-common takes it: no empty call list, arguments as objects, short call ids."""
    made = dict(message)
    if made.get("role") == "assistant":
        calls = made.pop("tool_calls", None)
        if isinstance(calls, list) and calls:
            made["tool_calls"] = [_call(call) for call in calls]
    elif made.get("role") == "tool" and isinstance(made.get("tool_call_id"), str):
        made["tool_call_id"] = str(made["tool_call_id"])[-TOOL_CALL_ID_LENGTH:]
    return made


def _call(call: Json) -> Json:
    if not isinstance(call, dict):
        return call
    made = dict(call)
    if isinstance(made.get("id"), str):
        made["id"] = str(made["id"])[-TOOL_CALL_ID_LENGTH:]
    function = made.get("function")
    if isinstance(function, dict):
        made["function"] = {**function, "arguments": arguments_object(function.get("arguments"))}
    return made


def arguments_object(arguments: Json) -> JsonObject:
    """Call arguments as an object; what is no JSON object becomes an empty one."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            arguments = None
    return arguments if isinstance(arguments, dict) else {}


def _tools(tools: list[JsonObject] | None) -> list[JsonObject] | None:
    """mistral-common wants a description and parameters, be they empty."""
    if tools is None:
        return None
    made = copy.deepcopy(tools)
    for tool in made:
        function = tool.get("function")
        if isinstance(function, dict):
            if function.get("parameters") is None:
                function["parameters"] = {}
            if function.get("description") is None:
                function["description"] = ""
    return made


def _check_last(messages: list[JsonObject], *, generates: bool, continues: bool) -> None:
    """The server's own checks on the two flags."""
    if generates and continues:
        reason = "Cannot set both `add_generation_prompt` and `continue_final_message` to True."
    elif not messages:
        reason = "list index out of range: messages is empty."
    elif generates and messages[-1].get("role") == "assistant":
        reason = (
            "Cannot set `add_generation_prompt` to True when the last message is from the "
            "assistant. Consider using `continue_final_message` instead."
        )
    elif continues and messages[-1].get("role") != "assistant":
        reason = (
            "Cannot set `continue_final_message` to True when the last message is not from the "
            "assistant."
        )
    else:
        return
    raise RowError(ErrorCode.INVALID_REQUEST, reason, stage=Stage.RENDER)

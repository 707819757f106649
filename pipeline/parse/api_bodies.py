"""Conversations that go to the renderer as they came, because a library converts them.

In the DeepSeek modes bodies of Chat Completions, of Anthropic's Messages and of the Responses API
are taken, and only the fields that are no matter of the conversion are looked at here.
"""

from __future__ import annotations

from typing import Final

from promptmill.pipeline.parse import fields
from promptmill.pipeline.parse.body import USED_UP, ParsedBody
from promptmill.pipeline.parse.fields import check_fields
from promptmill.pipeline.parse.rules import check_generation_prompt
from promptmill.pipeline.parse.shapes import RESPONSES_KEYS, is_anthropic_tool
from promptmill.schemas.json_types import Json, JsonObject
from promptmill.schemas.options import Task
from promptmill.schemas.request import Api, ApiPrompt, Budget, Endpoint

_BY_PATH: Final = {
    "/chat/completions": Api.CHAT_COMPLETIONS,
    "/messages": Api.MESSAGES,
    "/responses": Api.RESPONSES,
}
_ANTHROPIC_KEYS: Final = ("system", "stop_sequences", "output_config", "anthropic_version")
_BLOCKS: Final = (
    "document",
    "image",
    "redacted_thinking",
    "thinking",
    "tool_result",
    "tool_use",
)  # no set: a row may give a type that has no hash
"""Fields and types of content that only Anthropic's API has; `thinking` is DeepSeek's, too."""

_BUDGET: Final = ("truncate_prompt_tokens", "truncation_side", "add_special_tokens")
"""What of a budget is ours: the library reads the output's own limit."""

_CHECKED: Final = {
    name: fields.CHAT[name]
    for name in (
        *_BUDGET,
        "add_generation_prompt",
        "continue_final_message",
        "chat_template_kwargs",
    )
}
"""The server's fields that the library does not know and that count here all the same."""

_IN_PROMPT: Final = USED_UP | fields.PROMPTS | {"instructions", "system"}

_UNREAD: Final = {
    Api.CHAT_COMPLETIONS: {
        "max_completion_tokens": "DeepSeek's API reads max_tokens",
        "chat_template": "DeepSeek's prompts are written without one",
        "system": "it is no field of a chat request; make it a message",
    },
    Api.MESSAGES: {},
    Api.RESPONSES: {"previous_response_id": "the turns before are not in the prompt"},
}
"""By API, fields that change nothing, and why."""


def api_of(body: JsonObject, url: str | None, task: Task) -> Api | None:
    """Which API a conversation is of; None for what is no conversation (or no request).

    Args:
        body: the request body.
        url: path or address it would go to; None where the row does not say.
        task: in pooling, `input` holds texts.
    """
    if url is not None:
        path = url.partition("?")[0]
        return next((api for end, api in _BY_PATH.items() if path.endswith(end)), None)
    if body.get("messages") is not None:
        return Api.MESSAGES if _is_anthropic(body) else Api.CHAT_COMPLETIONS
    if "prompt" in body or "prompt_embeds" in body:
        return None
    if task is not Task.POOLING and ("input" in body or not RESPONSES_KEYS.isdisjoint(body)):
        return Api.RESPONSES
    return Api.CHAT_COMPLETIONS if "messages" in body else None


def parse_api_body(body: JsonObject, api: Api) -> ParsedBody:
    """The body for the library, its prompt budget and what is passed on.

    Raises:
        RowError: INVALID_REQUEST for a budget field that is wrong.
    """
    check_generation_prompt(body)
    known = check_fields(body, _CHECKED).known
    given = {name: value for name, value in body.items() if value is not None}
    return ParsedBody(
        endpoint=Endpoint.CHAT,
        prompts=[ApiPrompt(api, {**body, **known})],
        # The checks made the values what the fields are.
        budget=Budget(**{name: known[name] for name in _BUDGET if name in known}),  # type: ignore[arg-type]
        passthrough={name: value for name, value in given.items() if name not in _IN_PROMPT},
        warnings=tuple(
            f"{name} is ignored: {why}" for name, why in _UNREAD[api].items() if name in given
        ),
    )


def _is_anthropic(body: JsonObject) -> bool:
    tools = body.get("tools")
    return (
        any(body.get(name) is not None for name in _ANTHROPIC_KEYS)
        or (isinstance(tools, list) and any(map(is_anthropic_tool, tools)))
        or _has_blocks(body.get("messages"))
    )


def _has_blocks(messages: Json) -> bool:
    """Whether a message holds a content block of Anthropic's."""
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict) and part.get("type") in _BLOCKS:
                return True
    return False

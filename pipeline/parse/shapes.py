"""Which API a row speaks: by its url where it has one, else by its keys.

Bodies of other APIs are refused here, in one place.
"""

from __future__ import annotations

from typing import Final

from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import Json, JsonObject
from promptmill.schemas.options import Task
from promptmill.schemas.request import Endpoint

_BY_PATH: Final = {
    "/chat/completions": Endpoint.CHAT,
    "/completions": Endpoint.COMPLETION,
    "/embeddings": Endpoint.EMBEDDING,
}
"""By how the path ends: what stands before it is the provider's (/v1, /openai/v1, ...)."""
_OTHER_APIS: Final = {
    "/messages": "the Anthropic Messages API",
    "/responses": "the OpenAI Responses API",
}
RESPONSES_KEYS: Final = frozenset({"instructions", "previous_response_id", "max_output_tokens"})
"""Fields that only the Responses API has."""


def endpoint_of(body: JsonObject, url: str | None, task: Task) -> Endpoint:
    """The endpoint whose rules a body follows.

    Args:
        body: the request body.
        url: path or address it would go to; None where the row does not say.
        task: what tells an embeddings body from a Responses body, and a conversation to embed
            from one to answer.

    Raises:
        RowError: UNSUPPORTED_REQUEST for other APIs, INVALID_REQUEST for what is no request.
    """
    if url is not None:
        return _by_url(url)
    if body.get("messages") is not None:
        if _is_anthropic(body):
            raise _other_api("the Anthropic Messages API")
        return Endpoint.EMBEDDING if task is Task.POOLING else Endpoint.CHAT
    if "prompt" in body or "prompt_embeds" in body:
        return Endpoint.COMPLETION
    if task is Task.POOLING and "input" in body:
        return Endpoint.EMBEDDING
    if "input" in body or not RESPONSES_KEYS.isdisjoint(body):
        raise _other_api("the OpenAI Responses API", "for embeddings, run with --task pooling")
    if "messages" in body:
        return Endpoint.CHAT
    raise RowError(ErrorCode.INVALID_REQUEST, _no_request(body))


def _no_request(body: JsonObject) -> str:
    if isinstance(body.get("conversations"), list):  # as in many training sets
        return (
            "The row is no request: chats are read from messages, and it has conversations. Rename "
            "them; turns of from and value (ShareGPT) become role and content."
        )
    return (
        "The row is no request: it has none of messages, prompt and input. For plain documents "
        "name the key of the text with --text-column."
    )


def _by_url(url: str) -> Endpoint:
    path = url.partition("?")[0]
    for end, endpoint in _BY_PATH.items():
        if path.endswith(end):
            return endpoint
    for end, name in _OTHER_APIS.items():
        if path.endswith(end):
            raise _other_api(name)
    supported = ", ".join(f"/v1{end}" for end in _BY_PATH)
    raise RowError(
        ErrorCode.UNSUPPORTED_REQUEST,
        f"URL {url[:100]!r} is not a supported endpoint. Supported endpoints: {supported}.",
        parameter="url",
    )


def _is_anthropic(body: JsonObject) -> bool:
    """Whether keys that only the Anthropic API has stand in the body."""
    if "max_tokens" not in body:  # that API requires it
        return False
    tools = body.get("tools")
    return (
        body.get("system") is not None
        or isinstance(body.get("thinking"), dict)
        or (isinstance(tools, list) and any(map(is_anthropic_tool, tools)))
    )


def is_anthropic_tool(tool: Json) -> bool:
    """Whether a tool is defined as in the Anthropic API."""
    return isinstance(tool, dict) and "input_schema" in tool and "function" not in tool


def _other_api(name: str, hint: str = "convert the row to an OpenAI chat body") -> RowError:
    return RowError(
        ErrorCode.UNSUPPORTED_REQUEST,
        f"This is a request of {name}, which is not supported: {hint}.",
        parameter="url",
    )

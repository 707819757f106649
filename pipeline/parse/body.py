"""A request body to prompts, budget and what is passed on. Profile rule.

`stream` is accepted: it changes the answer, never the prompt.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from promptmill.pipeline.parse import fields, rules
from promptmill.pipeline.parse.fields import Given, check_fields
from promptmill.pipeline.parse.messages import rebuild_messages
from promptmill.pipeline.parse.prompts import completion_prompts, embedding_prompts
from promptmill.pipeline.parse.reuse import PROMPT_TOKEN_IDS, forwarded_ids
from promptmill.pipeline.parse.tools import rebuild_tools
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import Json, JsonObject
from promptmill.schemas.request import Budget, ChatPrompt, Endpoint, Prompt, TokensPrompt

USED_UP: Final = frozenset(ChatPrompt.__struct_fields__) - {"reasoning_effort"}
"""Fields that are in the prompt and not passed on: the effort also matters to the answer."""

_CHAT_FIELDS: Final = USED_UP | {"reasoning_effort"}
_BUDGET_FIELDS: Final = frozenset(Budget.__struct_fields__)
_NO_BUDGET: Final = Budget()
_SYSTEM_UNREAD: Final = (
    "system is no field of a chat request and is not in the prompt; make it a message"
)


class ParsedBody(msgspec.Struct, frozen=True, kw_only=True):
    """What a body asks for."""

    endpoint: Endpoint
    prompts: list[Prompt]
    """One for each output row."""
    budget: Budget
    passthrough: JsonObject
    """Every given field that rendering does not use up, as the server would work with it."""
    warnings: tuple[str, ...] = ()


def parse_body(body: JsonObject, endpoint: Endpoint) -> ParsedBody:
    """Validate and rebuild a body as the server's request model of `endpoint` does.

    The body is not changed; the result shares values with it.

    A chat body whose `kv_transfer_params` forward the ids of its prompt gives a `TokensPrompt`
    with the chat endpoint: those ids are used as they are, without template or truncation.

    Raises:
        RowError: INVALID_REQUEST, UNSUPPORTED_REQUEST or EMPTY_PROMPT.
    """
    return _PARSERS[endpoint](body)


def _chat(body: JsonObject) -> ParsedBody:
    given = check_fields(body, fields.CHAT)
    rules.check_chat(body)
    messages = rebuild_messages(body.get("messages"))
    prompt = _chat_prompt(messages, rebuild_tools(body.get("tools")), given)
    parsed = _parsed(Endpoint.CHAT, [prompt], given)
    if "system" in given.unknown:
        parsed = replace(parsed, warnings=(_SYSTEM_UNREAD,))
    transfer = given.known.get("kv_transfer_params")
    if isinstance(transfer, dict) and transfer.get(PROMPT_TOKEN_IDS) is not None:
        return _reusing(parsed, transfer, messages)
    return parsed


def _reusing(parsed: ParsedBody, transfer: JsonObject, messages: list[JsonObject]) -> ParsedBody:
    """The same with forwarded ids taken out of what is passed on, and used where they can be."""
    ids = None if parsed.budget.echo else forwarded_ids(transfer, messages)
    kept = {name: value for name, value in transfer.items() if name != PROMPT_TOKEN_IDS}
    passthrough: JsonObject = {**parsed.passthrough, "kv_transfer_params": kept}
    if ids is None:
        return replace(parsed, passthrough=passthrough)
    budget = replace(parsed.budget, truncate_prompt_tokens=None, truncation_side=None)
    return replace(parsed, prompts=[TokensPrompt(ids)], budget=budget, passthrough=passthrough)


def _completion(body: JsonObject) -> ParsedBody:
    given = check_fields(body, fields.COMPLETION)
    rules.check_completion(body)
    return _parsed(Endpoint.COMPLETION, [*completion_prompts(body)], given)


def _embedding(body: JsonObject) -> ParsedBody:
    """Texts, ids or conversations."""
    conversations = _conversations(body)
    if conversations is None:
        given = check_fields(body, fields.EMBEDDING)
        rules.check_removed(body)
        return _parsed(Endpoint.EMBEDDING, [*embedding_prompts(body)], given)
    given = check_fields(body, fields.EMBEDDING_CHAT)
    rules.check_removed(body)
    rules.check_generation_prompt(body)
    # False is this endpoint's own default for both, whatever the job's task takes.
    prompts: list[Prompt] = [
        replace(prompt, add_generation_prompt=bool(prompt.add_generation_prompt))
        for item in conversations
        for prompt in [_chat_prompt(rebuild_messages(item, normalise=False), None, given)]
    ]
    parsed = _parsed(Endpoint.EMBEDDING, prompts, given)
    special = bool(parsed.budget.add_special_tokens)
    return replace(parsed, budget=replace(parsed.budget, add_special_tokens=special))


_PARSERS: Final = {
    Endpoint.CHAT: _chat,
    Endpoint.COMPLETION: _completion,
    Endpoint.EMBEDDING: _embedding,
}


def _conversations(body: JsonObject) -> list[Json] | None:
    """What stands under `messages` or else under `input`; None where that is texts or ids."""
    value = body.get("messages")
    if value is None:
        value = body.get("input")
        first = value[0] if isinstance(value, list) and value else None
        if isinstance(first, list):
            first = first[0] if first else None
        if not isinstance(first, dict):
            return None
    several = isinstance(value, list) and value and all(isinstance(one, list) for one in value)
    if not several or not isinstance(value, list):
        return [value]
    if not all(value):
        raise RowError(
            ErrorCode.INVALID_REQUEST,
            "messages holds an empty conversation. Leave it out.",
            parameter="messages",
        )
    return value


def _chat_prompt(
    messages: list[JsonObject], tools: list[JsonObject] | None, given: Given
) -> ChatPrompt:
    return ChatPrompt(messages, tools, **_among(_CHAT_FIELDS, given))


def _parsed(endpoint: Endpoint, prompts: list[Prompt], given: Given) -> ParsedBody:
    budget = _among(_BUDGET_FIELDS, given)
    kept = {name: value for name, value in given.known.items() if name not in USED_UP}
    return ParsedBody(
        endpoint=endpoint,
        prompts=prompts,
        budget=Budget(**budget) if budget else _NO_BUDGET,
        passthrough=kept | given.unknown,
    )


def _among(names: frozenset[str], given: Given) -> dict[str, Any]:
    """Fields by name: their checks have made them what the structs say."""
    known = given.known
    return {} if names.isdisjoint(known) else {n: known[n] for n in known if n in names}

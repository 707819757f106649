"""Prompts of completion and embedding bodies: text or ids, one or several. Profile rule."""

from __future__ import annotations

from typing import Literal, TypeAlias

from promptmill.pipeline.parse.coerce import Mismatch, integer
from promptmill.schemas import profile
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import Json, JsonObject
from promptmill.schemas.request import TextPrompt, TokensPrompt

Plain: TypeAlias = "TextPrompt | TokensPrompt"


def completion_prompts(body: JsonObject) -> list[Plain]:
    """The prompts of a completion body.

    Raises:
        RowError: EMPTY_PROMPT, INVALID_REQUEST (ids must be >= 0), UNSUPPORTED_REQUEST for
            embeddings in place of a prompt and for infilling.
    """
    if body.get("prompt_embeds") not in (None, []):
        raise RowError(
            ErrorCode.UNSUPPORTED_REQUEST,
            "prompt_embeds are the model's own tensors and have no text or ids. Give prompt.",
            parameter="prompt_embeds",
        )
    if body.get("suffix") is not None:
        raise RowError(
            ErrorCode.UNSUPPORTED_REQUEST,
            "suffix is only supported for models with FIM completion rendering. Drop it, or write "
            "the infilling prompt with the model's own control tokens.",
            parameter="suffix",
        )
    prompt = body.get("prompt")
    if prompt is None or prompt == "":
        raise RowError(
            ErrorCode.EMPTY_PROMPT,
            "Either prompt or prompt_embeds must be provided and non-empty, and only prompt can "
            "be rendered.",
            parameter="prompt",
        )
    found = _prompts(prompt, "prompt")
    if len(found) > profile.PROMPTS_PER_COMPLETION:
        raise _refused(
            "prompt",
            f"has {len(found)} prompts; a request may have {profile.PROMPTS_PER_COMPLETION}. "
            "Split the row",
        )
    for item in found:
        if isinstance(item, TokensPrompt) and min(item.token_ids, default=0) < 0:
            raise _refused("prompt", f"has the id {min(item.token_ids)}; ids must be >= 0")
    return found


def embedding_prompts(body: JsonObject) -> list[Plain]:
    """The prompts of an embeddings body that is no conversation.

    Raises:
        RowError: EMPTY_PROMPT or INVALID_REQUEST.
    """
    return _prompts(body.get("input"), "input")


def _prompts(value: Json, name: Literal["prompt", "input"]) -> list[Plain]:
    if isinstance(value, str):
        return [TextPrompt(value)]
    if not isinstance(value, list):
        raise _refused(name, "must be a string, a list of strings, ids or lists of ids")
    if not value:
        raise RowError(
            ErrorCode.EMPTY_PROMPT,
            f"You must pass at least one prompt: {name} is an empty list.",
            parameter=name,
        )
    texts = [TextPrompt(item) for item in value if isinstance(item, str)]
    if len(texts) == len(value):
        return [*texts]
    try:
        # A list that mixes ids and strings is ids: strings that spell numbers are numbers there.
        if isinstance(value[0], list):
            return [TokensPrompt(_ids(item)) for item in value]
        return [TokensPrompt(_ids(value))]
    except Mismatch as mismatch:
        raise _refused(name, "must hold only strings, only ids or only lists of ids") from mismatch


def _ids(value: Json) -> list[int]:
    if not isinstance(value, list):
        raise Mismatch("a list of ids")
    return [item if type(item) is int else integer(item) for item in value]


def _refused(name: str, text: str) -> RowError:
    return RowError(ErrorCode.INVALID_REQUEST, f"{name} {text}.", parameter=name)

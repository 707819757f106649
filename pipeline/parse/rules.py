"""Rules between the fields of a body, as the server's request validation has them. Profile rule.

They look at the fields as they were given: "false" is a true value here, as it is there. Not
here: rules about `tool_choice`, which never rejects a row, and about sampling values, which the
engine checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import JsonObject

Rule: TypeAlias = Callable[[JsonObject], None]


def check_generation_prompt(body: JsonObject) -> None:
    """A final message is either continued or answered.

    Raises:
        RowError: INVALID_REQUEST, without a parameter.
    """
    if body.get("continue_final_message") and body.get("add_generation_prompt"):
        raise RowError(
            ErrorCode.INVALID_REQUEST,
            "Cannot set both `continue_final_message` and `add_generation_prompt` to True: set "
            "add_generation_prompt to false to continue the last message.",
        )


def check_removed(body: JsonObject) -> None:
    """Fields that the pooling endpoints once had.

    Raises:
        RowError: INVALID_REQUEST, naming what replaced them.
    """
    if "normalize" in body:
        raise _refused("normalize", "was removed; use use_activation instead")
    instead = {"score": "classify", "encode": "token_embed or token_classify"}
    task = body.get("task")
    if isinstance(task, str) and task in instead:
        raise _refused("task", f"{task!r} was removed; use {instead[task]} instead")


def _beam_search(body: JsonObject) -> None:
    if body.get("use_beam_search"):
        raise RowError(
            ErrorCode.UNSUPPORTED_REQUEST,
            "Beam search is not supported for rendered prompts. Drop use_beam_search.",
            parameter="use_beam_search",
        )


def _stream_options(body: JsonObject) -> None:
    if body.get("stream_options") and not body.get("stream"):
        raise _refused("stream_options", "can only be given when stream is true")


def _prompt_logprobs(body: JsonObject) -> None:
    if body.get("stream") and body.get("prompt_logprobs"):
        raise _refused("prompt_logprobs", "is not available when stream is true")


def _chat_logprobs(body: JsonObject) -> None:
    for name in ("logprob_token_ids", "top_logprobs"):
        if body.get(name) and not body.get("logprobs"):
            raise _refused(name, "needs logprobs to be true")


def _completion_logprobs(body: JsonObject) -> None:
    if not body.get("logprob_token_ids"):
        return
    if body.get("logprobs") is None:
        raise _refused("logprob_token_ids", "needs logprobs to be given")
    if body.get("echo") and body.get("max_tokens") == 0:
        raise _refused("logprob_token_ids", "needs output, but echo with max_tokens=0 gives none")


_CHAT: Final[tuple[Rule, ...]] = (
    check_generation_prompt,
    _beam_search,
    _stream_options,
    _prompt_logprobs,
    _chat_logprobs,
)
_COMPLETION: Final[tuple[Rule, ...]] = (
    _beam_search,
    _stream_options,
    _prompt_logprobs,
    _completion_logprobs,
)
_TRIGGERS: Final = frozenset(
    {
        "continue_final_message",
        "logprob_token_ids",
        "prompt_logprobs",
        "stream_options",
        "top_logprobs",
        "use_beam_search",
    }
)
"""Every rule needs one of these to be given; most rows have none."""


def check_chat(body: JsonObject) -> None:
    """The rules of `/v1/chat/completions`.

    Raises:
        RowError: INVALID_REQUEST or UNSUPPORTED_REQUEST.
    """
    if not _TRIGGERS.isdisjoint(body):
        for rule in _CHAT:
            rule(body)


def check_completion(body: JsonObject) -> None:
    """The rules of `/v1/completions`.

    Raises:
        RowError: INVALID_REQUEST or UNSUPPORTED_REQUEST.
    """
    if not _TRIGGERS.isdisjoint(body):
        for rule in _COMPLETION:
            rule(body)


def _refused(name: str, text: str) -> RowError:
    return RowError(ErrorCode.INVALID_REQUEST, f"{name} {text}.", parameter=name)

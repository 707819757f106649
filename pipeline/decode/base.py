"""What reading an engine's output gives, and what all readers do first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from promptmill.pipeline.model.generation import generation_defaults
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.outputs import EngineOutput

STOP = "stop"
LENGTH = "length"
FINISH_REASONS = (STOP, LENGTH, "content_filter")
"""Of OpenAI's; an engine's other words mean stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer as a client would have got it."""

    body: JsonObject
    """Of a chat completion."""
    unknown_ids: int = 0
    """Ids that the vocabulary lacks; they stand for nothing."""
    incomplete: bool = False
    """Whether it ended inside a character, which was dropped."""

    @property
    def warnings(self) -> list[str]:
        """What was odd about it."""
        found = []
        if self.unknown_ids:
            found.append(f"{self.unknown_ids} ids are not in the vocabulary and give no text")
        if self.incomplete:
            found.append("the answer ends inside a character, which was dropped")
        return found


class ReplyReader(Protocol):
    """Reads the outputs of one model."""

    def read(self, output: EngineOutput) -> Reply:
        """The answer.

        Raises:
            RowError: the output contradicts itself.
        """


def end_ids(bundle: ModelBundle) -> frozenset[int]:
    """The ids with which answers of a model end, or are padded."""
    padding = bundle.facts.pad_token_id
    return stop_ids(bundle) | (frozenset() if padding is None else {padding})


def stop_ids(bundle: ModelBundle) -> frozenset[int]:
    """The ids that end an answer: one of them is generated, and counts as the server counts."""
    stops = generation_defaults(bundle).get("stop_token_ids")
    found = (bundle.facts.eos_token_id, *(stops if isinstance(stops, list) else ()))
    return frozenset(i for i in found if isinstance(i, int))


def without_end(output: EngineOutput, ends: Collection[int]) -> EngineOutput:
    """The output without the end and padding ids at its end; its finish reason settled.

    Raises:
        RowError: INVALID_REQUEST where there are not as many log probabilities as ids.
    """
    ids, logprobs = output.token_ids, output.logprobs
    if logprobs is not None and len(logprobs) != len(ids):
        raise RowError(
            ErrorCode.INVALID_REQUEST,
            f"The output has {len(logprobs)} log probabilities for {len(ids)} ids. Give one an "
            "id, or none.",
            parameter="logprobs",
            value=len(logprobs),
        )
    kept = len(ids)
    while kept and ids[kept - 1] in ends:
        kept -= 1
    return replace(
        output,
        token_ids=ids[:kept],
        logprobs=None if logprobs is None else logprobs[:kept],
        finish_reason=_finish_reason(output, ended=kept < len(ids)),
    )


def _finish_reason(output: EngineOutput, *, ended: bool) -> str:
    if output.finish_reason is not None:
        return output.finish_reason if output.finish_reason in FINISH_REASONS else STOP
    limit = output.request.get("max_tokens")
    full = isinstance(limit, int) and len(output.token_ids) >= limit
    return LENGTH if full and not ended else STOP


def chat_completion(
    output: EngineOutput,
    message: JsonObject,
    *,
    model: str,
    created: int,
    completion_tokens: int,
    logprobs: Sequence[JsonObject] | None,
) -> JsonObject:
    """The body of a chat completion with one choice.

    Args:
        output: settled by `without_end`.
        message: the assistant's.
        model: who answered, where the request does not say.
        created: Unix time.
        completion_tokens: ids that count.
        logprobs: entries of the content's tokens, if there are any.
    """
    known = output.prompt_tokens
    usage: JsonObject | None = None  # a client's type lets it be null, and none of its counts
    if known is not None:
        usage = {
            "prompt_tokens": known,
            "completion_tokens": completion_tokens,
            "total_tokens": known + completion_tokens,
        }
    content: JsonObject | None = None if logprobs is None else {"content": [*logprobs]}
    return {
        "id": f"chatcmpl-{output.custom_id}",
        "object": "chat.completion",
        "created": created,
        "model": str(output.request.get("model") or model),
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": content,
                "finish_reason": output.finish_reason,
            }
        ],
        "usage": usage,
    }

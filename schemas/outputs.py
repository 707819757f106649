"""What an engine answered: ids, and what is known about them."""

from __future__ import annotations

from dataclasses import dataclass, field

from promptmill.schemas.json_types import JsonObject


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Log probabilities at one position of an answer."""

    logprob: float
    """Of the id that stands there."""
    top: tuple[tuple[int, float], ...] = ()
    """The most likely ids and theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOutput:
    """One answer of an engine, not yet text."""

    custom_id: str
    token_ids: list[int]
    logprobs: list[TokenLogprob] | None = None
    """One an id, where the engine gave them."""
    finish_reason: str | None = None
    """As the engine named it; None where it did not."""
    prompt_tokens: int | None = None
    """None where nothing was carried along that tells."""
    request: JsonObject = field(default_factory=dict)
    """The `request` column of the row that the answer is to, where it was carried along."""
    has_request: bool = False
    """Whether it was."""

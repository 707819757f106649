"""What it means that our answer equals the reference's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from promptmill.schemas.errors import ErrorCode, RowError

DIFFERENCES = {
    "exact_context": "a prompt of exactly the context length that must generate is refused",
    "no_pad_token": "padding is refused where the tokenizer has no pad token (the server: nulls)",
    "harmony_text": "chats of gpt-oss keep their text and offsets (the server gives ids only)",
    "tool_choice": "tool_choice never rejects a row: the server's 400 is about its tool parser",
    "media_lost": "a media item lost in the first cut is a clean row error (the server: 500)",
    "typed_placeholder": "a typed placeholder beside media of its modality is refused",
    "media_offsets": "rows with media have offsets too",
    "no_content": "messages never quote the row's content (some of the server's do)",
    "encoder_cache": "the engine's cache for media is the server's setting, not the prompt's",
    "deepseek_text": "the server's port of DeepSeek's prompts is not ours: cases run on its text",
    "own_500": "what the server answers with 500 or 501 for the user's input is a clean row error",
}
"""The deliberate differences, by rule."""

MEANINGS: dict[str, set[ErrorCode]] = {
    "VLLMValidationError": set(ErrorCode) - {ErrorCode.INTERNAL_ERROR},
    "ValidationError": {
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNSUPPORTED_REQUEST,
        ErrorCode.EMPTY_PROMPT,
        ErrorCode.INVALID_BUDGET,
        ErrorCode.TOKEN_OUT_OF_VOCABULARY,
    },
    "ValueError": set(ErrorCode) - {ErrorCode.INTERNAL_ERROR},
    "TypeError": set(ErrorCode) - {ErrorCode.INTERNAL_ERROR},
    "ErrorResponse": {
        ErrorCode.UNTRUSTED_TEMPLATE,
        ErrorCode.UNSUPPORTED_REQUEST,
        ErrorCode.INVALID_REQUEST,
    },
    "ChatTemplateResolutionError": {ErrorCode.NO_CHAT_TEMPLATE},
    "AssertionError": {ErrorCode.MEDIA_SPLIT, ErrorCode.PLACEHOLDER_MISMATCH},
    "RuntimeError": {ErrorCode.MEDIA_SPLIT, ErrorCode.PLACEHOLDER_MISMATCH},
    "VLLMUnprocessableEntityError": {ErrorCode.MEDIA_FETCH_FAILED, ErrorCode.MEDIA_NOT_ALLOWED},
}
"""The reference's exception class -> the codes of ours that may mean the same."""

QUOTED = re.compile(r"Final message to .*", re.DOTALL)
"""The difference `no_content`: what follows in the reference's message is the row's text."""
FACT = re.compile(r"(?<![\w.])-?\d+(?![\w.]*\w)|`\w+`")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one case."""

    case: str
    kind: str
    good: bool
    reason: str = ""
    rule: str | None = None
    """The deliberate difference that explains it."""


def short(value: object, width: int = 160) -> str:
    """A value on one line."""
    text = str(value).replace("\n", "\\n")
    return text if len(text) <= width else text[: width - 3] + "..."


def difference(ours: object, theirs: object, what: str) -> str | None:
    """None when equal, else a line that says where they part."""
    if ours == theirs:
        return None
    if isinstance(ours, list | str) and isinstance(theirs, list | str):
        at = next(
            (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b),
            min(len(ours), len(theirs)),
        )
        return (
            f"{what} differs at {at} (lengths {len(ours)}, {len(theirs)}): "
            f"ours {short(ours[at : at + 40])!r}, reference {short(theirs[at : at + 40])!r}"
        )
    return f"{what}: ours {short(ours)!r}, reference {short(theirs)!r}"


def error_difference(ours: RowError, theirs: dict[str, Any]) -> str | None:
    """None when our error means what the reference's means and carries its facts."""
    wanted = MEANINGS.get(theirs["type"])
    if wanted is None:
        return f"no meaning is known for the reference's {theirs['type']}"
    if ours.code not in wanted:
        return f"code {ours.code} for {theirs['type']}: {short(theirs['message'])!r}"
    for field in ("parameter", "value"):
        expected = theirs.get(field)
        if expected is not None and getattr(ours, field) != expected:
            return f"error {field}: ours {getattr(ours, field)!r}, reference {expected!r}"
    if theirs["type"] in ("ValidationError", "AssertionError", "RuntimeError"):
        return None
    if (
        ours.code is ErrorCode.TEMPLATE_ERROR
        and QUOTED.sub("", theirs["message"]) not in ours.message
    ):
        return f"reason: ours {short(ours.message)!r}, reference {short(theirs['message'])!r}"
    facts = (fact.strip("`") for fact in FACT.findall(theirs["message"]))
    missing = [fact for fact in facts if fact not in ours.message]
    if missing:
        return f"our message lacks {missing}: {short(ours.message)!r}"
    return None

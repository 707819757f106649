"""The control tokens that DeepSeek's prompts are written with, and whether a tokenizer has them.

A tokenizer of another release would give wrong ids without any error, so that it is refused where
a run starts. Spellings are the defaults of the official library, deepseek-recipe 0.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from promptmill.pipeline.engines.spec import added_tokens
from promptmill.schemas.errors import JobError

V4: Final = "deepseek_v4"
V41: Final = "deepseek_v41"
"""Their tokenizer modes."""

BOS: Final = "<｜begin▁of▁sentence｜>"
EOS: Final = "<｜end▁of▁sentence｜>"
ASSISTANT: Final = "<｜Assistant｜>"
THINKING: Final = ("<think>", "</think>")

V4_SPELLINGS: Final = (
    BOS,
    EOS,
    *THINKING,
    "<｜User｜>",
    ASSISTANT,
    "<｜latest_reminder｜>",
    "｜DSML｜",
    "<｜ref｜>",
    "<｜/ref｜>",
    "<｜box｜>",
    "<｜/box｜>",
    "<｜point｜>",
    "<｜/point｜>",
    "<｜polygon｜>",
    "<｜/polygon｜>",
)
"""What the renderer of V4 may write."""

SYSTEM: Final = "<｜System｜>"
"""V4.1 writes this too."""

IMAGE_ID: Final = 129264
"""The id of an image in V4.1, whatever its spelling."""

IMAGE_SPELLINGS: Final = ("<｜image｜>", "<｜deepseek_image｜>")
"""In the library's own tokenizer file, and in that of the published checkpoint."""


def is_deepseek(mode: str) -> bool:
    """Whether prompts of a tokenizer mode are written by the official library."""
    return mode in (V4, V41)


def added_ids(backend: str) -> dict[str, int]:
    """Ids of the added tokens of a serialised tokenizer, by spelling."""
    return {token.content: token.id for token in added_tokens(backend)}


def image_spelling(added: Mapping[str, int]) -> str | None:
    """How an image is spelled in a tokenizer of V4.1; None where it has no right one."""
    return next((s for s in IMAGE_SPELLINGS if added.get(s) == IMAGE_ID), None)


def check_tokens(name: str, mode: str, backend: str) -> None:
    """Refuse a tokenizer that prompts of a mode cannot be encoded with.

    Args:
        name: of the model, for the message.
        mode: the tokenizer mode.
        backend: the serialised tokenizer.

    Raises:
        JobError: a control token is missing, or has the wrong id.
    """
    added = added_ids(backend)
    wanted = (*V4_SPELLINGS, SYSTEM) if mode == V41 else V4_SPELLINGS
    missing = [spelling for spelling in wanted if spelling not in added]
    if missing:
        raise _wrong(name, mode, f"has no control token {', '.join(missing)}")
    if mode == V41 and image_spelling(added) is None:
        found = ", ".join(f"{s} is {added[s]}" for s in IMAGE_SPELLINGS if s in added)
        wrong = found or f"it has no {IMAGE_SPELLINGS[0]}"
        raise _wrong(name, mode, f"has no image token with the id {IMAGE_ID} ({wrong})")


def _wrong(name: str, mode: str, problem: str) -> JobError:
    return JobError(
        f"{name}: its tokenizer is not that of {mode}: it {problem}. Use the tokenizer.json that "
        "was released with the model, or the --tokenizer-mode that belongs to this one."
    )

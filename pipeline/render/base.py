"""What a renderer is, and what it asks of the media side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from promptmill.schemas.json_types import Json
from promptmill.schemas.media import MediaItem, Modality
from promptmill.schemas.request import (
    ChatPrompt,
    Endpoint,
    Rendered,
    Request,
    TextPrompt,
    TokensPrompt,
)


class Renderer(Protocol):
    """Turns requests into prompts. Threads may share one."""

    def admit(self, request: Request) -> None:
        """What the server refuses before it looks at budgets.

        Raises:
            RowError: the request may not be rendered here.
        """

    def render(self, request: Request) -> Rendered:
        """The prompt of one request.

        Raises:
            RowError: the row cannot be rendered.
        """


def chat_prompt(request: Request) -> ChatPrompt:
    """The chat of a request that is one.

    Raises:
        TypeError: it holds what only a library's renderer takes.
    """
    if isinstance(request.prompt, ChatPrompt):
        return request.prompt
    raise TypeError(f"{type(request.prompt).__name__} is for a renderer that converts it")


def as_given(request: Request, *, mask_wanted: bool = False) -> Rendered | None:
    """A prompt that needs no rendering, text or ids; None for a chat.

    Args:
        request: any.
        mask_wanted: mark the characters to learn: of a text all of them.
    """
    match request.prompt:
        case TokensPrompt(token_ids=ids):
            # Ids that came with a chat body are used as they are.
            return Rendered(token_ids=ids, verbatim=request.endpoint is Endpoint.CHAT)
        case TextPrompt(text=text):
            return Rendered(text=text, assistant_spans=((0, len(text)),) if mask_wanted else None)
        case _:
            return None


class MediaRules(Protocol):
    """What rendering needs to know of a model's media; the expander has it."""

    supported: Mapping[Modality, int]
    """The modalities of the model, and how many items of each a prompt may have."""

    def placeholder(self, modality: Modality, index: int) -> str | None:
        """What stands for the `index`-th item (from 0) of a modality; None: nothing."""

    def check_items(self, items: Sequence[MediaItem]) -> None:
        """Hold the limits; raises RowError."""

    def check_typed(self, messages: Json, items: Sequence[MediaItem]) -> None:
        """Refuse placeholders typed in the text of a row with media; raises RowError."""

"""What a renderer is, and what it asks of the media side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from promptmill.schemas.json_types import Json
from promptmill.schemas.media import MediaItem, Modality
from promptmill.schemas.request import ApiPrompt, Rendered, Request


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


def unconverted(prompt: ApiPrompt) -> TypeError:
    """The error of a renderer that is given what only a library's renderer takes."""
    return TypeError(f"a body of the API {prompt.api} is for a renderer that converts it")


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

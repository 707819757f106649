"""A chat that is ready to be rendered, as often and in as many variations as needed."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from promptmill.pipeline.render.continuation import continuation
from promptmill.pipeline.render.template import ChatTemplate
from promptmill.pipeline.render.variables import Arguments
from promptmill.schemas.json_types import Json, JsonObject


class Chat(msgspec.Struct, frozen=True, kw_only=True):
    """A template and all that it is given."""

    template: ChatTemplate
    messages: list[JsonObject]
    arguments: Arguments
    special_tokens: Mapping[str, str | list[str]]
    """By the names that templates know them by: bos_token, eos_token, ..."""

    @property
    def content(self) -> list[Json]:
        """What the row gives of text: its messages, tools and documents."""
        return [*self.said, self.arguments.tools, self.arguments.documents]

    @property
    def said(self) -> list[Json]:
        """What its messages say."""
        said: list[Json] = []
        for message in self.messages:
            if "reasoning_content" in message:  # `reasoning` once more
                message = {**message, "reasoning_content": None}
            said += message.values()
        return said

    def render(self) -> str:
        """The prompt.

        Raises:
            RowError: TEMPLATE_ERROR, TEMPLATE_OUTPUT_TOO_LARGE, or INVALID_REQUEST where there is
                no final message to continue.
        """
        if not self.arguments.continue_final_message:
            return self._write(self.messages)
        continued = continuation(self.messages, self.template.source)
        return continued.cut(self._write(continued.messages))

    def _write(self, messages: list[JsonObject]) -> str:
        given = self.arguments
        return self.template.render(
            {
                **self.special_tokens,
                **given.extra,
                "messages": messages,
                "tools": given.tools,
                "documents": given.documents,
                "add_generation_prompt": given.add_generation_prompt,
            }
        )

"""Which control tokens of a prompt the template wrote, and which a user typed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from promptmill.pipeline.render.chat import Chat
from promptmill.pipeline.render.controls import ControlSpellings, pattern, strings_in
from promptmill.pipeline.render.environment import TemplateEnvironment
from promptmill.pipeline.render.shadow import Shadow, plain, shadow_of
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import Json
from promptmill.schemas.request import CharSpan

UNTRACKED: Final = "the template transforms content: only whole control tokens were looked for"
"""The warning of a row that could not be tracked but holds no control spelling."""


@dataclass(frozen=True, slots=True)
class Escaped:
    """The control tokens of a prompt that count as such."""

    ranges: tuple[CharSpan, ...]
    """What the template wrote, in order."""
    tracked: bool
    """False where the template could not be followed but the content holds no control spelling."""


class ContentTracker:
    """Follows content through templates by its shadows (see `shadow.py`).

    Content is every string of the messages, tools and documents. Shadowed are the characters that
    a control spelling can begin with, so that none can come about by joining or trimming either,
    and whole spellings that begin with a letter or digit.

    Args:
        controls: the spellings of the model's tokenizer.
        templates: compiles templates so that their blocks keep shadows.
    """

    def __init__(self, controls: ControlSpellings, templates: TemplateEnvironment) -> None:
        self._controls = controls
        self._templates = templates
        firsts = {spelling[0] for spelling in controls.controls}
        marks = {first for first in firsts if not first.isalnum()}
        words = [spelling for spelling in controls.controls if spelling[0] not in marks]
        self._exchanged = re.compile(pattern([*marks, *words]))

    def escape(self, chat: Chat, text: str) -> Escaped:
        """The control tokens that the template wrote into its prompt.

        Args:
            chat: what was rendered.
            text: its prompt.

        Raises:
            RowError: ESCAPE_UNAVAILABLE where content holds control spellings and the template
                transforms it so that they cannot be followed.
        """
        if not any(map(self._exchanged.search, strings_in(chat.content))):
            return Escaped(tuple(self._controls.find_added(text)), tracked=True)
        try:
            written = self._shadowed(chat).render()
        except (RowError, RecursionError):
            written = ""
        if plain(written) == text:
            return Escaped(tuple(self._controls.find_added(written)), tracked=True)
        if self._controls.count(chat.content):
            raise RowError(
                ErrorCode.ESCAPE_UNAVAILABLE,
                "The content of this row holds control tokens, and the chat template transforms "
                "content so that --escape-control-tokens cannot tell them from its own. Remove "
                "them from the row, or use a template that writes content as it is.",
            )
        return Escaped(tuple(self._controls.find_added(text)), tracked=False)

    def _shadowed(self, chat: Chat) -> Chat:
        given = chat.arguments
        return replace(
            chat,
            template=self._templates.compile(chat.template.source),
            messages=[
                {key: self._shadow(value) for key, value in message.items()}
                for message in chat.messages
            ],
            arguments=replace(
                given, tools=self._shadow(given.tools), documents=self._shadow(given.documents)
            ),
        )

    def _shadow(self, value: Json) -> Json:
        """The same value with shadows in its strings, keys included."""
        if isinstance(value, str):
            return self._string(value)
        if isinstance(value, list):
            return [self._shadow(item) for item in value]
        if isinstance(value, dict):
            return {self._string(key): self._shadow(item) for key, item in value.items()}
        return value

    def _string(self, text: str) -> str:
        shadowed, count = self._exchanged.subn(lambda match: shadow_of(match[0]), text)
        return Shadow(shadowed) if count else text

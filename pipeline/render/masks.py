"""Which characters of a prompt assistant turns wrote.

Two ways, in this order:

* The template says so by `{% generation %}` tags: exactly what stands inside them.
* By rendering: turn `i` is what the prompt of `messages[:i + 1]` has beyond the prompt of
  `messages[:i]` with a generation prompt, i.e. what a model would have had to write, the end token
  included and white space after it left out. This needs a template that is *prefix-stable*: each
  of these prompts must be how the next one begins.

Where neither works the row is refused; a mask is never silently empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from promptmill.pipeline.render.chat import Chat
from promptmill.pipeline.render.controls import ControlSpellings
from promptmill.pipeline.render.environment import TemplateEnvironment
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.options import MaskTurns
from promptmill.schemas.request import CharSpan

GENERATION_MARKS: Final = ("\U00100000", "\U00100001")
"""Written around generation blocks while they are looked for: private-use characters."""

_MARK: Final = re.compile(f"([{''.join(GENERATION_MARKS)}])")


class AssistantSpans:
    """Finds the assistant's characters.

    Args:
        turns: all assistant turns, or the last one only.
        controls: the spellings of the model's tokenizer, to know end tokens.
        marking: compiles templates so that generation blocks are written between
            `GENERATION_MARKS`.
    """

    def __init__(
        self, turns: MaskTurns, controls: ControlSpellings, marking: TemplateEnvironment
    ) -> None:
        self._last_only = turns is MaskTurns.LAST
        self._controls = controls
        self._marking = marking

    def find(self, chat: Chat, text: str) -> tuple[CharSpan, ...]:
        """Spans in the prompt, in order; none where the chat has no assistant turn.

        Args:
            chat: what was rendered.
            text: its prompt.

        Raises:
            RowError: MASK_UNAVAILABLE.
        """
        turns = [i for i, message in enumerate(chat.messages) if message["role"] == "assistant"]
        if not turns:
            return ()
        if chat.template.has_generation:
            return self._from_tags(chat, text, len(turns))
        wanted = turns[-1:] if self._last_only else turns
        return tuple(self._from_boundaries(chat, text, turn) for turn in wanted)

    def _from_tags(self, chat: Chat, text: str, turns: int) -> tuple[CharSpan, ...]:
        template = self._marking.compile(chat.template.source)
        pieces = _MARK.split(replace(chat, template=template).render())
        if "".join(pieces[::2]) != text:
            raise _unavailable("the template looks at or changes what its generation blocks write")
        spans = tuple(_marked(pieces))
        if not spans:
            raise _unavailable("the template's generation blocks wrote nothing")
        if self._last_only and len(spans) != turns:
            raise _unavailable(
                f"the template wrote {len(spans)} generation blocks for {turns} assistant turns, "
                "so the last turn cannot be told; use --mask all"
            )
        return spans[-1:] if self._last_only else spans

    def _from_boundaries(self, chat: Chat, text: str, turn: int) -> CharSpan:
        before = _prefix(chat, turn, generation_prompt=True)
        continued = chat.arguments.continue_final_message and turn == len(chat.messages) - 1
        after = text if continued else _prefix(chat, turn + 1, generation_prompt=False)
        if not text.startswith(after):
            raise _unavailable(
                f"the template writes messages up to message {turn} differently when others follow"
                f"{self._way_out(chat)}"
            )
        if not after.startswith(before):
            raise _unavailable(
                f"message {turn} does not begin as the generation prompt announces it"
            )
        if len(after) == len(before) and chat.messages[turn]["content"]:
            raise _unavailable(f"the template leaves message {turn} out")
        bare = after.rstrip()
        ended = len(bare) > len(before) and self._controls.ends(bare)
        return len(before), len(bare) if ended else len(after)

    def _way_out(self, chat: Chat) -> str:
        """A last turn that ends the chat has nothing behind it that could change it."""
        wanted = "" if self._last_only else "--mask last may do"
        if chat.messages[-1]["role"] != "assistant":
            trimmed = "leave out what follows the last assistant turn"
            wanted = trimmed if self._last_only else f"{trimmed}, then {wanted}"
        return f" ({wanted})" if wanted else ""


def _prefix(chat: Chat, count: int, *, generation_prompt: bool) -> str:
    """The prompt of the first messages."""
    arguments = replace(
        chat.arguments, add_generation_prompt=generation_prompt, continue_final_message=False
    )
    first = replace(chat, messages=chat.messages[:count], arguments=arguments)
    try:
        return first.render()
    except RowError as error:
        raise _unavailable(
            f"the first {count} messages alone cannot be rendered ({error.message})"
        ) from None


def _marked(pieces: list[str]) -> Iterator[CharSpan]:
    """Spans of the outermost marked pieces, in code points of the text without marks."""
    at = start = depth = 0
    for index, piece in enumerate(pieces):
        if index % 2 == 0:
            at += len(piece)
        elif piece == GENERATION_MARKS[0]:
            start = at if not depth else start
            depth += 1
        else:
            depth -= 1
            if not depth and at > start:
                yield start, at
    if depth and at > start:
        yield start, at


def _unavailable(reason: str) -> RowError:
    return RowError(
        ErrorCode.MASK_UNAVAILABLE,
        f"No mask of the assistant's tokens: {reason}. Give a --chat-template that marks them by "
        "{% generation %} tags, or leave masks out with --no-mask.",
    )

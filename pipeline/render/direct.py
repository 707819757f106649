"""Templates that are written as functions, as long as they agree with Jinja.

A function is tried on made-up conversations when its template is compiled, and on some of the
rows after that. The rest of the rows it gets alone.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from promptmill.pipeline.engines.base import EngineMismatch
from promptmill.pipeline.engines.checked import CHECK_EVERY, CHECK_FIRST, digest
from promptmill.pipeline.render.template import Variables
from promptmill.pipeline.render.written import WRITTEN, Plain, Written
from promptmill.schemas.json_types import Json, JsonObject

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Direct:
    """A template written as a function, and the same template in Jinja.

    Args:
        written: gives None, or raises, for what it cannot do.
        plain: what it must agree with.
        every: one prompt in so many is compared.
        first: so many of the first prompts are compared.
    """

    written: Written
    plain: Plain
    every: int = CHECK_EVERY
    first: int = CHECK_FIRST

    def render(self, variables: Variables) -> str | None:
        """The prompt; None where Jinja is to be asked.

        Raises:
            EngineMismatch: Jinja writes something else.
        """
        text = _attempt(self.written, variables)
        if text is not None and self._is_sample(text) and not self._is_right(text, variables):
            raise EngineMismatch("A template written as a function", "Jinja")
        return text

    def agrees(self) -> bool:
        """Whether both give the same for conversations that try every branch of templates."""
        for variables in _trials():
            text = _attempt(self.written, variables)
            if text is not None and not self._is_right(text, variables):
                return False
        return True

    def _is_right(self, text: str, variables: Variables) -> bool:
        try:
            return self.plain(variables) == text
        except Exception:  # a template may refuse a conversation in any way
            return False

    def _is_sample(self, text: str) -> bool:
        if self.first:
            self.first -= 1
            return True
        return digest(text) % self.every == 0


def written_directly(source: str, plain: Plain) -> Callable[[Variables], str | None] | None:
    """The function for a template's text; None where there is none, or it does not agree."""
    make = WRITTEN.get(sha256(source.encode(errors="surrogatepass")).hexdigest())
    if make is None:
        return None
    made = Direct(make(plain), plain)
    if made.agrees():
        return made.render
    log.error("the function %s does not write what its template does", make.__name__)
    return None


def _attempt(written: Written, variables: Variables) -> str | None:
    try:
        return written(variables)
    except (AttributeError, LookupError, TypeError, ValueError):  # not what it was written for
        return None


def _message(role: str, content: str, **more: Json) -> JsonObject:
    return {"role": role, "content": content, **more}


_TOOL: Final[JsonObject] = {"type": "function", "function": {"name": "f", "description": "é <"}}
_TOOLS: Final[tuple[Json, ...]] = (None, [_TOOL])
_CALLS: Final[list[Json]] = [
    {"type": "function", "function": {"name": "f", "arguments": {"a": [1, "é"]}}},
    {"name": "g", "arguments": "{}"},
]
_CONTENTS: Final = (
    "",
    "hi",
    " \n hi\n ",
    "<think>\n\nwhy\n</think>\n\nso",
    "no</think>a<think>b</think>\nso",
    "<tool_response>\nx</tool_response>",
)
_MESSAGES: Final[list[JsonObject]] = [
    *[_message(role, text) for role in ("user", "assistant") for text in _CONTENTS],
    *[_message(role, "hi") for role in ("system", "tool", "developer", "else")],
    _message("assistant", "", tool_calls=_CALLS),
    _message("assistant", "x", tool_calls=_CALLS[:1], reasoning_content="\nwhy\n"),
    _message("assistant", "x", reasoning_content=""),
    _message("assistant", "a</think>b", reasoning_content=None, tool_calls=[]),
]
_SETTINGS: Final[list[JsonObject]] = [
    {"add_generation_prompt": prompt, "tools": tools, "documents": None, **thinking}
    for prompt in (True, False)
    for tools in _TOOLS
    for thinking in ({}, {"enable_thinking": True}, {"enable_thinking": False})
]


def _trials() -> Iterator[JsonObject]:
    """Every message alone, after and before every other, and all together, with the settings."""
    pairs = itertools.product(_MESSAGES, repeat=2)
    chats = [*([m] for m in _MESSAGES), *pairs, _MESSAGES, _MESSAGES[::-1]]
    for messages, settings in zip(chats, itertools.cycle(_SETTINGS), strict=False):
        yield {**settings, "messages": [*messages]}

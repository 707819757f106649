"""Message content as one string, with placeholders where the server puts them.

Profile rule (vLLM 0.33.0, `renderers/chat_utils/chat_message.py`): each message by itself;
placeholders go in front of the text, or, with `--interleave-mm-strings`, where their parts stand.
"""

from __future__ import annotations

from collections import Counter, deque

from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.media import Modality


class StringContent:
    """Collects the parts of one message.

    Args:
        interleave: keep media in their places.
    """

    def __init__(self, *, interleave: bool) -> None:
        self._interleave = interleave
        self._texts: list[str] = []
        self._slots: dict[str, deque[str]] = {}
        """Placeholders by the marker that holds their places."""
        self.moved = False
        """Whether a placeholder went in front of text that came before its part."""

    def add_text(self, text: str | None) -> None:
        """A text part; empty ones vanish."""
        if text:
            self._texts.append(text)

    def add_media(self, modality: Modality, placeholder: str | None) -> None:
        """A media part, and what stands for it, if anything."""
        if placeholder:
            self._slots.setdefault(_marker(modality), deque()).append(placeholder)
        if self._interleave:
            self._texts.append(_marker(modality))
        elif placeholder and self._texts:
            self.moved = True

    def text(self) -> str:
        """The whole content.

        Raises:
            RowError: PLACEHOLDER_IN_TEXT where the text holds more placeholders than media.
        """
        if not self._slots:
            return "\n".join(self._texts)
        counts = Counter(placeholder for slots in self._slots.values() for placeholder in slots)
        texts = [self._in_place(text) for text in self._texts] if self._interleave else self._texts
        text = "\n".join(texts)
        missing: list[str] = []
        for placeholder, wanted in counts.items():
            lacking = wanted - text.count(placeholder)
            if lacking < 0:
                raise _too_many(placeholder, parameter="messages")
            missing += [placeholder] * lacking
        return "\n".join([*missing, text] if text else missing)

    def _in_place(self, text: str) -> str:
        """The placeholder for a marker; a text that equals one takes a place too, as served."""
        if text not in self._slots:
            return text
        if not self._slots[text]:
            raise _too_many(text, parameter=None)
        return self._slots[text].popleft()


def _marker(modality: Modality) -> str:
    return f"<##{modality.upper()}##>"


def _too_many(placeholder: str, parameter: str | None) -> RowError:
    return RowError(
        ErrorCode.PLACEHOLDER_IN_TEXT,
        f"Found more '{placeholder}' placeholders in input prompt than actual multimodal data "
        "items. Remove them from the text; media parts bring their own.",
        parameter=parameter,
    )

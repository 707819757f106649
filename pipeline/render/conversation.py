"""The messages of a request as the template sees them.

Profile rule (vLLM 0.33.0, `renderers/chat_utils/`): a template gets new dictionaries with only the
keys made here, and content as a string or as a list of parts, as its content format wants.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from promptmill.pipeline.render.base import MediaRules
from promptmill.pipeline.render.parts import MediaPart, Part, TextPart, ToolReference, read_part
from promptmill.pipeline.render.string_content import StringContent
from promptmill.pipeline.render.tool_calls import settle_tool_calls
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import Json, JsonObject
from promptmill.schemas.media import MediaItem, Modality
from promptmill.schemas.options import ContentFormat

BILLING_HEADER: Final = "x-anthropic-billing-header"
"""A first line of system text that changes with every request; the server drops it."""

_NAMES: Final = ("name", "task")
"""Fields of any message that a template gets where they are strings."""


@dataclass(slots=True)
class Conversation:
    """What the template sees, and what was noticed while making it."""

    messages: list[JsonObject] = field(default_factory=list)
    media: list[MediaItem] = field(default_factory=list)
    """In the order of their parts."""
    warnings: list[str] = field(default_factory=list)


class ConversationBuilder:
    """Builds the conversation of one request.

    Args:
        content_format: STRING or OPENAI.
        model: its name, for messages.
        media: the model's media rules; None: it takes text only.
        interleave: keep media in their places in string content (`--interleave-mm-strings`).
    """

    def __init__(
        self,
        content_format: ContentFormat,
        *,
        model: str,
        media: MediaRules | None = None,
        interleave: bool = False,
    ) -> None:
        self._as_parts = content_format is ContentFormat.OPENAI
        self._model = model
        self._media = media
        self._interleave = interleave
        self._items: dict[Modality, int] = {}
        self._done = Conversation()

    def build(self, messages: Sequence[JsonObject]) -> Conversation:
        """The conversation.

        Raises:
            RowError: INVALID_REQUEST (parameter `type` or `tool_calls`), UNSUPPORTED_REQUEST,
                MEDIA_UNSUPPORTED, or PLACEHOLDER_IN_TEXT.
        """
        done, called, add = self._done, [], self._done.messages.append
        simple = not self._as_parts
        for index, message in enumerate(messages):
            role, content = message["role"], message.get("content")
            if (
                simple
                and type(content) is str
                and len(message) == 2
                and role != "developer"
                and not content.startswith(BILLING_HEADER)
            ):
                add({"role": role, "content": content})  # as most are
                continue
            made = self._message(index, message)
            add(made)
            if "tool_calls" in made:
                called.append((index, made))
        for index, made in called:
            done.warnings += settle_tool_calls(f"messages[{index}]", made)
        return done

    def _message(self, index: int, message: JsonObject) -> JsonObject:
        role = message["role"]
        made: JsonObject = {"role": role, "content": self._content(index, message)}
        if role == "assistant":
            calls, reasoning = message.get("tool_calls"), message.get("reasoning")
            if isinstance(calls, list):
                made["tool_calls"] = [*calls]
            if reasoning is not None:
                made["reasoning"] = made["reasoning_content"] = reasoning
        elif role == "tool":
            if "tool_call_id" in message:
                made["tool_call_id"] = message["tool_call_id"]
            made["content"] = _tool_content(made["content"])
        for key in _NAMES:
            if isinstance(name := message.get(key), str):
                made[key] = name
        if role == "developer":
            made["tools"] = message.get("tools")
        return made

    def _content(self, index: int, message: JsonObject) -> Json:
        content = message.get("content")
        if isinstance(content, str) and not content.startswith(BILLING_HEADER):
            return [{"type": "text", "text": content}] if self._as_parts else content
        if content is None:
            return [] if self._as_parts else ""
        place = f"messages[{index}]"
        parts = self._parts(place, message)
        return self._list(parts) if self._as_parts else self._string(place, parts)

    def _parts(self, place: str, message: JsonObject) -> Iterator[Part]:
        """The parts of a message's content; parts without text are left out."""
        content = message.get("content")
        parts = content if isinstance(content, list) else [content]
        for part in _without_header(parts) if message["role"] == "system" else parts:
            read = read_part(part)
            if read is None:
                self._done.warnings.append(f"{place}: a content part without text was left out")
            else:
                yield read

    def _list(self, parts: Iterator[Part]) -> list[Json]:
        """Content of the OPENAI format; the template writes the placeholders."""
        made: list[Json] = []
        for part in parts:
            match part:
                case TextPart():
                    made.append({"type": "text", "text": part.text, **part.extra})
                case ToolReference():
                    made.append({"type": "tool_reference", "name": part.name})
                case MediaPart():
                    self._placeholder(part.item)
                    made.append({"type": part.item.modality.value, **part.extra})
        return made

    def _string(self, place: str, parts: Iterator[Part]) -> str:
        """Content of the STRING format; placeholders stand where the server puts them."""
        content = StringContent(interleave=self._interleave)
        for part in parts:
            match part:
                case TextPart(text=text) | ToolReference(name=text):
                    content.add_text(text)
                case MediaPart(item=item):
                    content.add_media(item.modality, self._placeholder(item))
        text = content.text()
        if content.moved:
            self._done.warnings.append(f"{place}: media moved to the front of the message's text")
        return text

    def _placeholder(self, item: MediaItem) -> str | None:
        """Take an item in; what stands for it, if anything."""
        if self._media is None:
            raise RowError(
                ErrorCode.MEDIA_UNSUPPORTED,
                f"{self._model} is not a multimodal model. Leave the {item.modality} parts out.",
            )
        index = self._items.get(item.modality, 0)
        self._items[item.modality] = index + 1
        self._done.media.append(item)
        return self._media.placeholder(item.modality, index)


def _without_header(parts: Sequence[Json]) -> Iterator[Json]:
    """System parts without the billing header; a part that holds nothing else is dropped."""
    for part in parts:
        text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else part
        if not isinstance(text, str) or not text.startswith(BILLING_HEADER):
            yield part
        elif rest := text.partition("\n")[2]:
            yield {**part, "text": rest} if isinstance(part, dict) else rest


def _tool_content(content: Json) -> Json:
    """Tool results as a string where they are all text: few templates read lists there."""
    if not isinstance(content, list):
        return content
    texts = [part["text"] for part in content if isinstance(part, dict) and part["type"] == "text"]
    if len(texts) < len(content):
        return content
    return "\n".join(text for text in texts if isinstance(text, str))

"""`continue_final_message`: a prompt that ends inside its last message.

Profile rule (transformers 5.20, `apply_chat_template`): a tag goes to the end of the last content,
and the rendered text is cut where the tag stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import Json, JsonObject

_TAG: Final = "CONTINUE_FINAL_MESSAGE_TAG "
"""As in transformers, because templates may measure the content. The space at its end tells
whether a template trims content."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """A conversation whose last message is tagged."""

    messages: list[JsonObject]
    final: str
    """The text to be continued, without the tag."""

    def cut(self, rendered: str) -> str:
        """The rendered text up to the tag.

        Raises:
            RowError: TEMPLATE_ERROR where the template did not write the final text.
        """
        if self.final.strip() not in rendered or _TAG.strip() not in rendered:
            raise RowError(
                ErrorCode.TEMPLATE_ERROR,
                "continue_final_message is set but the final message does not appear in the chat "
                "after applying the chat template! This can happen if the chat template deletes "
                "portions of the final message. Please verify the chat template and final message "
                "in your chat to ensure they are compatible.",
            )
        end = rendered.rindex(_TAG.strip())
        kept = rendered[:end]
        return kept if rendered.startswith(_TAG, end) else kept.rstrip()


def continuation(messages: list[JsonObject], source: str) -> Continuation:
    """Tag the last of the messages.

    Args:
        messages: at least one.
        source: the text of the template.

    Raises:
        RowError: INVALID_REQUEST where there is nothing to continue.
    """
    content = messages[-1].get("content")
    if content is None:
        raise _invalid(
            'continue_final_message is set but the final message has no "content" to continue!'
        )
    if "content" not in source:
        raise _invalid(
            'continue_final_message is set to "content" but this is not an accepted field in the '
            "chat_template"
        )
    tagged, final = _tagged(content)
    return Continuation([*messages[:-1], {**messages[-1], "content": tagged}], final)


def _tagged(content: Json) -> tuple[Json, str]:
    """Content with the tag, and the text that got it: the last one of a list of parts."""
    if isinstance(content, str):
        return content + _TAG, content
    parts = content if isinstance(content, list) else []
    for index in reversed(range(len(parts))):
        part = parts[index]
        if isinstance(part, dict) and isinstance(text := part.get("text"), str):
            return [*parts[:index], {**part, "text": text + _TAG}, *parts[index + 1 :]], text
    raise _invalid(
        "continue_final_message is set but we could not find any text to continue in the final "
        "message!"
    )


def _invalid(message: str) -> RowError:
    return RowError(ErrorCode.INVALID_REQUEST, message)

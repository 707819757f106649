"""Developer messages for templates that do not know the role.

Profile rule (vLLM 0.33.0, `renderers/hf.py`).
"""

from __future__ import annotations

from typing import Final

from promptmill.schemas.json_types import Json, JsonObject

FOLDED: Final = "developer messages were rendered as system text: the template lacks the role"
"""The warning of a row whose developer messages were folded."""


def has_developer(messages: list[JsonObject]) -> bool:
    """Whether any message is a developer's."""
    return "developer" in [message["role"] for message in messages]


def fold_developer(messages: list[JsonObject]) -> list[JsonObject]:
    """The messages with developers as system.

    If a system message then stands anywhere but first, all of them become one in front, their
    texts joined by blank lines; it keeps nothing but role and content.
    """
    folded = [_as_system(message) for message in messages]
    systems = [message for message in folded if message["role"] == "system"]
    if all(message["role"] != "system" for message in folded[1:]):
        return folded
    texts = [text for message in systems if (text := _flat(message["content"]))]
    others = [message for message in folded if message["role"] != "system"]
    return [{"role": "system", "content": "\n\n".join(texts)}, *others]


def _as_system(message: JsonObject) -> JsonObject:
    if message["role"] != "developer":
        return message
    kept = {key: value for key, value in message.items() if key != "tools"}
    return {**kept, "role": "system"}


def _flat(content: Json) -> str:
    """Content of either format as text."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))

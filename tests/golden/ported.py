"""DeepSeek media cases of the server: its port of the prompts is not ours, its ids and spans are.

The official library renders another image spelling (V4: words instead), so that these cases are
run on the server's own text, as plain prompts with their images.
"""

from __future__ import annotations

from typing import Any

from promptmill.pipeline.render.deepseek import Recipe
from promptmill.schemas.request import Api

MODES = {"deepseek_v4_vl": "deepseek_v4", "deepseek_v41_vl": "deepseek_v41"}
"""By family, the tokenizer mode whose prompts the port writes."""

OFFICIAL_IMAGES = ("<｜image｜>", "[Unsupported Image]")
PORTED_IMAGE = "<｜deepseek_image｜>"
"""All in which the texts of these cases differ."""


def on_ported_text(given: dict[str, Any], family: str) -> dict[str, Any]:
    """The case's input as a prompt of the server's text, for the tokenizer alone."""
    asked = given.get("request") or {}
    body = {"messages": given["messages"], **asked}
    converted = Recipe(MODES[family], (), None).convert(Api.CHAT_COMPLETIONS, body, thinking=True)
    text = converted.text
    for spelling in OFFICIAL_IMAGES:
        text = text.replace(spelling, PORTED_IMAGE)
    return {
        **given,
        "kind": "prompt_dict",
        "prompt": {"prompt": text, "multi_modal_data": {"image": [*_images(given["messages"])]}},
        "params": {
            "max_total_tokens": given["engine"]["max_model_len"],
            "max_output_tokens": None,
            "truncate_prompt_tokens": asked.get("truncate_prompt_tokens"),
            "truncation_side": asked.get("truncation_side"),
            "add_special_tokens": False,
        },
        "engine": {**given["engine"], "tokenizer_mode": "hf"},
    }


def _images(messages: list[dict[str, Any]]) -> list[str]:
    parts = (part for m in messages if isinstance(m["content"], list) for part in m["content"])
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]

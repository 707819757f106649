"""Real chats: the ids of transformers' own chat call, and offsets that cover the text."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from jinja2 import TemplateError
from transformers import AutoTokenizer
from transformers.utils import chat_template_utils

from promptmill.pipeline.encoder import Encoder
from promptmill.schemas.errors import ErrorCode as Code
from promptmill.schemas.request import EncodedBatch, TokenRow

Chat = dict[str, Any]
BATCH = 500


class FixedTime(datetime):
    """The clock of the encoders, for transformers."""

    @classmethod
    def now(cls, tz: Any = None) -> "FixedTime":
        return cls(2026, 1, 15, 12, tzinfo=tz)


@pytest.fixture(autouse=True)
def fixed_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template_utils, "datetime", FixedTime)


@pytest.fixture(scope="module")
def chats(shared: Path) -> list[Chat]:
    """Without tools, tool calls and reasoning, which the server rewrites before rendering."""
    with (shared / "data" / "chat_20k.jsonl").open(encoding="utf-8") as lines:
        return [chat for chat in map(json.loads, lines) if is_plain(chat)]


def is_plain(chat: Chat) -> bool:
    rewritten = {"tool_calls", "tool_call_id", "reasoning_content"}
    return "tools" not in chat and all(rewritten.isdisjoint(m) for m in chat["messages"])


@pytest.mark.parametrize(
    ("model", "count"),
    [
        ("qwen3", 2000),
        ("llama3_1", 250),
        ("gemma3", 250),
        *(pytest.param(m, None, marks=pytest.mark.soak) for m in ("qwen3", "llama3_1", "gemma3")),
    ],
)
def test_chats_equal_transformers(
    models: Path,
    chats: list[Chat],
    make_encoder: Callable[..., Encoder],
    encode: Callable[..., EncodedBatch],
    check_offsets: Callable[[TokenRow, Encoder], None],
    model: str,
    count: int | None,
) -> None:
    chats = chats[:: len(chats) // count] if count else chats
    encoder, reference = make_encoder(models / model), AutoTokenizer.from_pretrained(models / model)
    refused = Counter[Code]()
    for start in range(0, len(chats), BATCH):
        batch = chats[start : start + BATCH]
        done = encode(encoder, *batch)
        codes = {reject.custom_id: reject.error.code for reject in done.rejects}
        ours = {row.request.custom_id: row for row in done.rows}
        for chat in batch:
            wanted = theirs(reference, chat["messages"])
            if (code := codes.get(chat["id"])) is not None:
                long = wanted is not None and len(wanted) >= encoder.max_model_len
                assert code is (Code.PROMPT_TOO_LONG if long else Code.TEMPLATE_ERROR), chat["id"]
                assert long or wanted is None
                refused[code] += 1
                continue
            assert ours[chat["id"]].ids.tolist() == wanted, chat["id"]
            check_offsets(ours[chat["id"]], encoder)
    assert refused.total() < len(chats) // 2


def theirs(reference: Any, messages: list[Chat]) -> list[int] | None:
    """None where the template refuses the chat."""
    try:
        made = reference.apply_chat_template(messages, tokenize=True, add_generation_prompt=True)
    except TemplateError:
        return None
    return list(made["input_ids"])

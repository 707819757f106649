"""Real chats: the ids of transformers' own chat call, and offsets that cover the text."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jinja2 import TemplateError
from transformers import AutoTokenizer
from transformers.utils import chat_template_utils

from promptmill.pipeline.encoder import Encoder
from promptmill.schemas.errors import ErrorCode as Code
from promptmill.schemas.request import RawRow, TokenRow

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
    make_rows: Callable[..., list[RawRow]],
    model: str,
    count: int | None,
) -> None:
    chats = chats[:: len(chats) // count] if count else chats
    folder = models / model
    encoder, reference = make_encoder(folder), AutoTokenizer.from_pretrained(folder)
    refused = Counter[Code]()
    for start in range(0, len(chats), BATCH):
        batch = chats[start : start + BATCH]
        done = encoder.encode(make_rows(*batch))
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
            check_offsets(ours[chat["id"]], reference.backend_tokenizer.normalizer)
    assert refused.total() < len(chats) // 2


def theirs(reference: Any, messages: list[Chat]) -> list[int] | None:
    """None where the template refuses the chat."""
    try:
        made = reference.apply_chat_template(messages, tokenize=True, add_generation_prompt=True)
    except TemplateError:
        return None
    return list(made["input_ids"])


def check_offsets(row: TokenRow, normalizer: Any) -> None:
    assert row.text is not None
    assert row.offsets is not None
    assert len(row.offsets) == len(row.ids)
    starts, stops = row.offsets.T
    assert (np.diff(starts) >= 0).all()
    assert (starts >= 0).all()
    assert (starts <= stops).all()
    assert (stops <= len(row.text)).all()
    for at in uncovered(starts, stops, len(row.text)):
        assert normalizer is not None
        without, with_it = (normalizer.normalize_str(row.text[:end]) for end in (at, at + 1))
        assert len(with_it) <= len(without), "the normalizer keeps a character no token covers"


def uncovered(starts: Any, stops: Any, length: int) -> list[int]:
    """Characters that no token covers."""
    edges = np.zeros(length + 1, int)
    np.add.at(edges, starts, 1)
    np.add.at(edges, stops, -1)
    return np.flatnonzero(edges.cumsum()[:length] <= 0).tolist()

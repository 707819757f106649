"""Rows of the DeepSeek modes from file line to token row."""

import base64
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from PIL import Image

from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.model.deepseek_tokens import IMAGE_ID, V41
from promptmill.pipeline.parse.api_bodies import api_of
from promptmill.pipeline.tokenize import TextTokenizer
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import ErrorCode
from promptmill.schemas.options import JobOptions, Task
from promptmill.schemas.request import Api, EncodedBatch, RawRow

Encode = Callable[..., EncodedBatch]
USER = {"role": "user", "content": "question"}


@pytest.fixture(scope="module")
def encode(released: Callable[[str], ModelBundle]) -> Encode:
    """Encodes rows with a V4.1 tokenizer; the mode of the job is auto or the model's."""
    shared: list[TextTokenizer] = []

    def encoded(*rows: dict[str, Any], **options: object) -> EncodedBatch:
        given = {"input": ("rows",), "output": "out", "model": "m", "engine": "tokenizers"}
        job = JobOptions.model_validate({**given, "max_model_len": 8192, **options})
        clock = datetime(2026, 1, 1, tzinfo=UTC)
        encoder = Encoder(released(V41), job, clock, *shared)
        shared[:] = [encoder.tokenizer]
        lines = (json.dumps(row).encode() for row in rows)
        return encoder.encode([RawRow("rows", n, line) for n, line in enumerate(lines)])

    return encoded


def envelope(url: str, **body: object) -> dict[str, Any]:
    return {"custom_id": url, "method": "POST", "url": url, "body": body}


def image_part(width: int = 30, height: int = 20, **more: str) -> dict[str, Any]:
    out = io.BytesIO()
    Image.new("RGB", (width, height)).save(out, "PNG")
    url = "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()
    return {"type": "image_url", "image_url": {"url": url, **more}}


def shown(*parts: dict[str, Any], **fields: object) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [*parts]}], **fields}


def test_three_apis_one_prompt(encode: Encode) -> None:
    done = encode(
        envelope("/v1/chat/completions", messages=[USER], max_tokens=9),
        envelope("/v1/messages", messages=[USER], max_tokens=9),
        envelope("/v1/responses", input="question", max_output_tokens=9),
        {"id": "flat", "messages": [USER], "max_tokens": 9},
        {"id": "short", "input": "question", "max_output_tokens": 9},
    )
    assert not done.rejects
    assert len({row.text for row in done.rows}) == 1
    assert {row.max_tokens for row in done.rows} == {9}
    assert len(done.rows) == 5


@pytest.mark.parametrize(
    ("body", "url", "api"),
    [
        ({"messages": [USER]}, None, Api.CHAT_COMPLETIONS),
        ({"messages": [USER], "max_tokens": 5}, None, Api.CHAT_COMPLETIONS),
        ({"messages": [USER], "max_tokens": 5, "system": "s"}, None, Api.MESSAGES),
        ({"messages": [USER], "tools": [{"name": "f", "input_schema": {}}]}, None, Api.MESSAGES),
        (
            {"messages": [USER], "max_tokens": 5, "thinking": {"type": "enabled"}},
            None,
            Api.CHAT_COMPLETIONS,
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]},
            None,
            Api.MESSAGES,
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": ["a", "list"]}]}]},
            None,
            Api.CHAT_COMPLETIONS,
        ),
        ({"messages": [USER]}, "https://host/anthropic/v1/messages?beta=1", Api.MESSAGES),
        ({"input": "x"}, None, Api.RESPONSES),
        ({"instructions": "x"}, None, Api.RESPONSES),
        ({"prompt": "x"}, None, None),
        ({"prompt": "x"}, "/v1/completions", None),
        ({"input": "x"}, "/v1/embeddings", None),
        ({}, None, None),
    ],
)
def test_bodies_tell_their_api(body: dict[str, Any], url: str | None, api: Api | None) -> None:
    assert api_of(body, url, Task.GENERATE) is api


def test_texts_to_embed_are_no_conversations() -> None:
    assert api_of({"input": "x"}, None, Task.POOLING) is None


def test_what_is_passed_on(encode: Encode) -> None:
    body = {"messages": [USER], "max_completion_tokens": 5, "user": "me", "top_k": 3}
    (row,) = encode(body).rows
    assert row.warnings == ("max_completion_tokens is ignored: DeepSeek's API reads max_tokens",)
    assert row.max_tokens == 8192 - len(row.ids)
    passed = row.request.passthrough
    assert passed["answer_parsing"] == {
        "thinking_initial_stage": "ReasoningStart",
        "parse_tool_calls": False,
        "starts_in_tool_calls": False,
        "parse_json_output": False,
    }
    assert (passed["user"], passed["top_k"], passed["temperature"]) == ("me", 3, 1.0)
    assert "messages" not in passed


def test_history_by_id_is_told_of(encode: Encode) -> None:
    (row,) = encode({"input": "x", "previous_response_id": "resp_1"}).rows
    assert any("previous_response_id" in warning for warning in row.warnings)


def test_refused_rows_are_rejects(encode: Encode) -> None:
    done = encode(
        {"messages": [{"role": "robot", "content": "x"}]},
        {"messages": [USER], "max_tokens": 8000},
        {"messages": [USER], "truncation_side": "middle"},
        {"messages": [USER], "add_generation_prompt": True, "continue_final_message": True},
        envelope("/v1/nothing", messages=[USER]),
    )
    assert [(reject.row.row_index, reject.error.code) for reject in done.rejects] == [
        (0, ErrorCode.INVALID_REQUEST),
        (2, ErrorCode.INVALID_REQUEST),
        (3, ErrorCode.INVALID_REQUEST),
        (4, ErrorCode.UNSUPPORTED_REQUEST),
    ]
    assert len(done.rows) == 1


def test_budgets_are_the_library_s_and_truncation_ours(encode: Encode) -> None:
    (whole,) = encode({"messages": [USER]}).rows
    length = len(whole.ids)
    done = encode(
        {"messages": [USER], "max_tokens": 100},
        {"messages": [USER], "max_tokens": 10},
        max_model_len=length + 50,
    )
    assert [row.max_tokens for row in done.rows] == [10]
    assert f"{length} in the messages, 100 in the completion" in done.rejects[0].error.message
    (cut,) = encode({"messages": [USER], "truncate_prompt_tokens": 5}).rows
    assert cut.ids.tolist() == whole.ids[-5:].tolist()
    assert (cut.truncated_left, cut.original_num_tokens) == (length - 5, length)
    exact = encode({"messages": [USER]}, max_model_len=length)
    assert exact.rejects[0].error.code is ErrorCode.PROMPT_TOO_LONG


def test_images_are_expanded_or_collapsed(encode: Encode) -> None:
    body = shown(image_part(), {"type": "text", "text": "a"}, image_part(640, 480), max_tokens=7000)
    (expanded,) = encode(body).rows
    assert [span.length for span in expanded.spans] == [189, 206]
    first = expanded.spans[0]
    assert {*expanded.ids[first.offset : first.offset + first.length].tolist()} == {IMAGE_ID}
    (collapsed,) = encode(body, media_ids="collapsed").rows
    assert len(collapsed.ids) == len(expanded.ids) - 188 - 205
    assert [collapsed.ids[span.offset] for span in collapsed.spans] == [IMAGE_ID, IMAGE_ID]
    assert [span.length for span in collapsed.spans] == [1, 1]
    assert collapsed.offsets is not None
    assert len(collapsed.offsets) == len(collapsed.ids)
    assert collapsed.original_num_tokens == len(expanded.ids)
    assert collapsed.max_tokens == expanded.max_tokens == 7000
    # Both count the images: 7000 do not fit where they would beside the placeholders alone.
    tight = len(expanded.ids) + 6999
    for ids in ("expanded", "collapsed"):
        assert encode(body, max_model_len=tight, media_ids=ids).rejects


def test_a_typed_placeholder_beside_an_image_is_text(encode: Encode) -> None:
    (row,) = encode(shown({"type": "text", "text": "<｜image｜>"}, image_part())).rows
    assert [span.length for span in row.spans] == [189]
    assert row.ids.tolist().count(IMAGE_ID) == 189


def test_images_are_never_split(encode: Encode) -> None:
    done = encode(shown(image_part(), truncate_prompt_tokens=100))
    assert [reject.error.code for reject in done.rejects] == [ErrorCode.MEDIA_SPLIT]


def test_low_detail_is_smaller(encode: Encode) -> None:
    done = encode(shown(image_part(2000, 1800)), shown(image_part(2000, 1800, detail="low")))
    assert [row.spans[0].length for row in done.rows] == [959, 197]


def test_plain_prompts_are_left_alone(encode: Encode) -> None:
    done = encode({"prompt": "plain"}, {"prompt": [5, 6]})
    assert [row.text for row in done.rows] == ["plain", None]
    assert done.rows[1].ids.tolist() == [5, 6]

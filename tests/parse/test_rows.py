import json
from typing import Any

import msgspec
import pytest

from promptmill.pipeline.parse.rows import parse_row
from promptmill.pipeline.write.rejects import reject_line
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.json_types import Json, JsonObject
from promptmill.schemas.options import JobOptions, Task
from promptmill.schemas.request import (
    ChatPrompt,
    Endpoint,
    Place,
    RawRow,
    Reject,
    Request,
    TextPrompt,
)

MESSAGES: list[Json] = [{"role": "user", "content": "x"}]
CHAT: JsonObject = {"messages": MESSAGES}


def options(**given: Any) -> JobOptions:
    return JobOptions(input=("in.jsonl",), output="out", model="model", **given)


def raw(value: Any, *, source: str = "in.jsonl", index: int = 7) -> RawRow:
    """A JSONL row; bytes are the line itself."""
    line = value if isinstance(value, bytes) else json.dumps(value).encode()
    return RawRow(source, index, line, byte_range=(0, len(line)))


def requests(row: RawRow, **given: Any) -> list[Request]:
    found = parse_row(row, options(**given))
    assert found
    assert all(isinstance(item, Request) for item in found), found
    return [item for item in found if isinstance(item, Request)]


def request(value: Any, **given: Any) -> Request:
    (found,) = requests(raw(value), **given)
    return found


def reject(row: RawRow, **given: Any) -> Reject:
    (found,) = parse_row(row, options(**given))
    assert isinstance(found, Reject), found
    assert found.row is row
    return found


def error(value: Any, **given: Any) -> RowError:
    return reject(raw(value), **given).error


class TestLines:
    @pytest.mark.parametrize("line", [b"", b"  ", b"\t\r", b"\n"])
    def test_blank_lines_are_nothing(self, line: bytes) -> None:
        assert parse_row(raw(line), options()) == []

    @pytest.mark.parametrize("line", [b"[]", b'"x"', b"5", b"null"])
    def test_a_row_is_an_object(self, line: bytes) -> None:
        assert error(line).code is ErrorCode.INVALID_REQUEST

    def test_errors_of_the_line_have_the_stage_and_the_made_id(self) -> None:
        found = reject(raw(b'{"id": "a", '))
        assert (found.error.code, found.error.stage) == (ErrorCode.INVALID_JSON, Stage.PARSE)
        assert found.custom_id == "in.jsonl:7"

    def test_what_reading_refused_stays_refused(self) -> None:
        cause = RowError(ErrorCode.LINE_TOO_LONG, "too long")
        found = reject(RawRow("in.jsonl", 7, None, cause))
        assert found.error is cause
        assert cause.stage is Stage.READ


class TestIds:
    @pytest.mark.parametrize(
        ("given", "wanted"),
        [
            ({"custom_id": "c", "id": "i"}, "c"),
            ({"id": "i"}, "i"),
            ({"id": 12}, "12"),
            ({"custom_id": None, "id": "i"}, "i"),
            ({"custom_id": "", "id": 0}, "0"),
            ({"id": True}, "in.jsonl:7"),
            ({"id": ["x"]}, "in.jsonl:7"),
            ({}, "in.jsonl:7"),
        ],
    )
    def test_order(self, given: JsonObject, wanted: str) -> None:
        found = request({**CHAT, **given})
        assert found.custom_id == wanted
        assert found.place == Place("in.jsonl", 7, 0)
        assert found.passthrough == {}

    def test_a_named_column_comes_first_and_is_not_passed_on(self) -> None:
        found = request({**CHAT, "id": "i", "key": 5, "other": 1}, id_column="key")
        assert (found.custom_id, found.passthrough) == ("5", {"other": 1})
        assert request({**CHAT, "id": "i"}, id_column="key").custom_id == "i"

    def test_several_prompts_are_numbered(self) -> None:
        found = requests(raw({"id": "a", "prompt": ["x", "y"], "n": 2}))
        assert [item.custom_id for item in found] == ["a-0", "a-1"]
        assert [item.place.prompt_index for item in found] == [0, 1]
        assert [item.prompt for item in found] == [TextPrompt("x"), TextPrompt("y")]
        assert request({"id": "a", "prompt": ["x"]}).custom_id == "a"

    def test_a_refused_body_keeps_its_id(self) -> None:
        assert reject(raw({"id": "a", "messages": 5})).custom_id == "a"


class TestShapes:
    @pytest.mark.parametrize(
        ("body", "endpoint"),
        [
            (CHAT, Endpoint.CHAT),
            ({"prompt": "x"}, Endpoint.COMPLETION),
            ({"prompt": None, "messages": MESSAGES}, Endpoint.CHAT),
            ({"messages": None, "prompt": "x"}, Endpoint.COMPLETION),
        ],
    )
    def test_by_keys(self, body: JsonObject, endpoint: Endpoint) -> None:
        assert request(body).endpoint is endpoint

    @pytest.mark.parametrize("body", [CHAT, {"input": "x"}, {"input": MESSAGES}])
    def test_pooling(self, body: JsonObject) -> None:
        assert request(body, task=Task.POOLING).endpoint is Endpoint.EMBEDDING

    @pytest.mark.parametrize(
        ("body", "code", "fact"),
        [
            ({"input": "x"}, ErrorCode.UNSUPPORTED_REQUEST, "--task pooling"),
            ({"input": MESSAGES}, ErrorCode.UNSUPPORTED_REQUEST, "Responses"),
            ({"instructions": "x"}, ErrorCode.UNSUPPORTED_REQUEST, "Responses"),
            ({**CHAT, "system": "x", "max_tokens": 5}, ErrorCode.UNSUPPORTED_REQUEST, "Anthropic"),
            (
                {**CHAT, "tools": [{"name": "f", "input_schema": {}}], "max_tokens": 5},
                ErrorCode.UNSUPPORTED_REQUEST,
                "Anthropic",
            ),
            (
                {**CHAT, "thinking": {"type": "enabled"}, "max_tokens": 5},
                ErrorCode.UNSUPPORTED_REQUEST,
                "Anthropic",
            ),
            ({"text": "x"}, ErrorCode.INVALID_REQUEST, "--text-column"),
            ({"messages": None}, ErrorCode.INVALID_REQUEST, "messages"),
            ({"prompt": None}, ErrorCode.EMPTY_PROMPT, "prompt"),
            ({"prompt_embeds": "x"}, ErrorCode.UNSUPPORTED_REQUEST, "prompt_embeds"),
        ],
    )
    def test_refused(self, body: JsonObject, code: ErrorCode, fact: str) -> None:
        found = error(body)
        assert found.code is code
        assert fact in found.message


class TestEnvelopes:
    @pytest.mark.parametrize(
        ("url", "body", "endpoint"),
        [
            ("/v1/chat/completions", CHAT, Endpoint.CHAT),
            ("/v1/completions", {"prompt": "x"}, Endpoint.COMPLETION),
            ("/v1/embeddings", {"input": "x"}, Endpoint.EMBEDDING),
            ("https://host/openai/v1/chat/completions?api-version=1", CHAT, Endpoint.CHAT),
            (None, CHAT, Endpoint.CHAT),
        ],
    )
    def test_the_url_decides(self, url: str | None, body: JsonObject, endpoint: Endpoint) -> None:
        given = {"custom_id": "c", "method": "GET", "url": url, "body": {**body, "x": 1}}
        found = request(given)
        assert (found.custom_id, found.endpoint) == ("c", endpoint)
        assert found.passthrough == {"x": 1}

    def test_the_url_decides_against_the_keys(self) -> None:
        found = error({"custom_id": "c", "url": "/v1/completions", "body": CHAT})
        assert (found.code, found.parameter) == (ErrorCode.EMPTY_PROMPT, "prompt")

    @pytest.mark.parametrize(
        ("url", "fact"),
        [
            ("/v1/messages", "Anthropic Messages"),
            ("/v1/responses", "OpenAI Responses"),
            ("/v1/audio/transcriptions", "/v1/chat/completions, /v1/completions, /v1/embeddings"),
            ("http://[broken", "not a supported endpoint"),
        ],
    )
    def test_other_urls_are_refused(self, url: str, fact: str) -> None:
        found = reject(raw({"custom_id": "c", "url": url, "body": CHAT}))
        assert found.error.code is ErrorCode.UNSUPPORTED_REQUEST
        assert fact in found.error.message
        assert found.custom_id == "c"

    @pytest.mark.parametrize("given", [{"body": "x"}, {"body": None}, {"url": 5, "body": CHAT}])
    def test_broken_envelopes(self, given: JsonObject) -> None:
        assert error({"custom_id": "c", **given}).code is ErrorCode.INVALID_REQUEST


class TestDocuments:
    def test_the_text_and_what_is_beside_it(self) -> None:
        found = request({"id": "d", "text": "x", "meta": 1, "none": None}, text_column="text")
        assert (found.endpoint, found.prompt) == (Endpoint.DOCUMENT, TextPrompt("x"))
        assert (found.custom_id, found.passthrough) == ("d", {"meta": 1})

    def test_any_name_will_do(self) -> None:
        for name in ("prompt", "body", "messages"):
            found = request({name: "[x", "key": "k"}, text_column=name, id_column="key")
            assert (found.endpoint, found.custom_id) == (Endpoint.DOCUMENT, "k")

    def test_requests_may_stand_among_documents(self) -> None:
        assert request(CHAT, text_column="text").endpoint is Endpoint.CHAT

    @pytest.mark.parametrize("row", [{"text": 5}, {"text": None}, {"txt": "x"}])
    def test_rows_without_text(self, row: JsonObject) -> None:
        found = error(row, text_column="text")
        assert (found.code, found.parameter) == (ErrorCode.INVALID_REQUEST, "text")


def test_training_sets_of_another_form_are_told_how() -> None:
    turns: list[Json] = [{"from": "human", "value": "x"}]
    said = error({"id": "a", "conversations": turns}).message
    assert "turns of from and value (ShareGPT) become role and content" in said
    assert "--text-column" in error({"id": "a", "conversations": "x"}).message


class TestColumns:
    def test_the_row_is_left_alone(self) -> None:
        row: Any = {"id": 5, "messages": json.dumps(MESSAGES), "image": b"\x00", "seed": None}
        before = str(row)
        (found,) = requests(RawRow("a.parquet", 1, row))
        assert (found.custom_id, found.prompt) == ("5", ChatPrompt(MESSAGES))  # type: ignore[arg-type] # JSON
        assert found.passthrough == {}
        assert str(row) == before

    def test_json_text_is_decoded(self) -> None:
        tool = {"type": "function", "function": {"name": "f", "parameters": {"default": None}}}
        row: JsonObject = {
            "messages": json.dumps(MESSAGES),
            "tools": json.dumps([tool]),
            "stop": "[",
            "metadata": "{",
        }
        (found,) = requests(RawRow("a.parquet", 1, row))
        prompt = found.prompt
        assert isinstance(prompt, ChatPrompt)
        assert prompt.messages == MESSAGES
        assert prompt.tools is not None
        assert '"default": null' in json.dumps(prompt.tools)
        assert found.passthrough == {"stop": "[", "metadata": "{"}

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("[{", ErrorCode.INVALID_JSON),
            ('["\\ud800"]', ErrorCode.LONE_SURROGATE),
            ("[" * 2000 + "]" * 2000, ErrorCode.NESTING_TOO_DEEP),
            ("plain", ErrorCode.INVALID_REQUEST),
        ],
    )
    def test_broken_json_text_names_its_column(self, text: str, code: ErrorCode) -> None:
        found = reject(RawRow("a.parquet", 1, {"messages": text})).error
        assert (found.code, found.parameter) == (code, "messages")

    def test_json_text_in_a_line_is_a_string(self) -> None:
        assert error({"messages": json.dumps(MESSAGES)}).code is ErrorCode.INVALID_REQUEST

    def test_media_bytes_become_data_urls_and_others_are_left_out(self) -> None:
        part = {"type": "image_url", "image_url": {"url": b"\x89PNG"}}
        row: Any = {
            "messages": [{"role": "user", "content": [part]}],
            "thumbnail": b"\x00",
            "faces": [{"crop": b"\x00", "score": 1.5}],
        }
        (found,) = requests(RawRow("a.parquet", 1, row))
        prompt = found.prompt
        assert isinstance(prompt, ChatPrompt)
        assert prompt.messages[0]["content"] == [
            {"type": "image_url", "image_url": {"url": "data:;base64,iVBORw=="}}
        ]
        assert found.passthrough == {"faces": [{"crop": None, "score": 1.5}]}

    def test_absurd_nesting(self) -> None:
        deep: Any = {}
        for _ in range(5000):
            deep = {"k": [deep]}
        row: Any = {"messages": MESSAGES, "deep": deep}
        assert reject(RawRow("a", 1, row)).error.code is ErrorCode.NESTING_TOO_DEEP


def again(row: RawRow, failed: Request | Reject, stage: Stage = Stage.FIT) -> RawRow:
    """The rejects file's line for a prompt that failed, as a row of a second run."""
    if isinstance(failed, Request):
        cause = RowError(ErrorCode.PROMPT_TOO_LONG, "too long", stage=stage)
        failed = Reject(row, cause, failed.custom_id, failed.place.prompt_index)
    line = msgspec.json.encode(reject_line(failed))
    return RawRow("rejects/00001.jsonl", 3, line, byte_range=(0, len(line)))


class TestRunningRejectsAgain:
    def test_one_prompt(self) -> None:
        for body in ({**CHAT, "id": "a"}, CHAT, {"custom_id": "c", "url": None, "body": CHAT}):
            row = raw(body)
            (first,) = requests(row)
            (second,) = requests(again(row, first))
            assert second.custom_id == first.custom_id
            assert second.prompt == first.prompt
            assert second.place == Place("rejects/00001.jsonl", 3, 0)

    @pytest.mark.parametrize("own_id", [{"id": "a"}, {"id": "a-1"}, {}])
    @pytest.mark.parametrize("stage", [Stage.FIT, Stage.PARSE])
    def test_only_the_prompt_that_failed(self, own_id: JsonObject, stage: Stage) -> None:
        row = raw({"prompt": ["x", "y", "z"], **own_id})
        failed = requests(row)[1]
        line = again(row, failed, stage)
        (second,) = requests(line)
        assert (second.custom_id, second.prompt) == (failed.custom_id, failed.prompt)
        assert second.place.prompt_index == 1
        (third,) = requests(again(line, second))
        assert (third.custom_id, third.prompt) == (failed.custom_id, failed.prompt)

    @pytest.mark.parametrize("own_id", [{"id": "a"}, {"id": "a-0"}, {}])
    def test_a_row_that_failed_as_a_whole(self, own_id: JsonObject) -> None:
        body = {"prompt": ["x", "y"], "input": "x", **own_id}
        row = raw({**body, "temperature": "hot"})
        line = again(row, reject(row))
        assert reject(line).custom_id == reject(row).custom_id
        wrapper = json.loads(line.data or b"")
        wrapper["request"]["temperature"] = 1
        repaired = requests(raw(wrapper))
        assert [item.custom_id for item in repaired] == [
            f"{reject(row).custom_id}-0",
            f"{reject(row).custom_id}-1",
        ]

    def test_the_same_row_fails_in_the_same_way(self) -> None:
        null_name: Json = [{"role": "user", "content": "x", "name": None}]
        for line in (b'{"broken', b'{"messages": "\\ud800"}', json.dumps({"messages": null_name})):
            row = raw(line if isinstance(line, bytes) else line.encode())
            assert reject(again(row, reject(row))).error.code is reject(row).error.code

    def test_columnar_rows_stay_columnar(self) -> None:
        data: Any = {"messages": json.dumps(MESSAGES), "image": b"\x00"}
        row = RawRow("a.parquet", 5, data)
        (first,) = requests(row)
        (second,) = requests(again(row, first))
        assert (second.custom_id, second.prompt) == ("a.parquet:5", first.prompt)

    def test_what_was_not_carried_is_a_reject_again(self) -> None:
        row = RawRow("in.jsonl", 7, None, RowError(ErrorCode.LINE_TOO_LONG, "x"), (0, 5), b"head")
        found = reject(again(row, Reject(row, RowError(ErrorCode.LINE_TOO_LONG, "x"), "in:7")))
        assert found.error.code is ErrorCode.INVALID_REQUEST
        assert "carries no request" in found.error.message
        assert found.custom_id == "in:7"

    @pytest.mark.parametrize("original", [5, [], "x", {"no": "request"}, None])
    @pytest.mark.parametrize("columnar", [True, False])
    def test_odd_reject_lines(self, original: Json, columnar: bool) -> None:
        for text in ("[1]", "{", "5", ""):
            line = {"request": original, "error": None, "stage": None, "columnar": columnar}
            reject(raw({**line, "raw": {"text": text}}))


def test_a_row_refused_for_a_lone_surrogate_is_found_by_its_own_id() -> None:
    line = b'{"custom_id": "s", "messages": [{"role": "user", "content": "a\\ud83db"}]}'
    (found,) = parse_row(RawRow("in.jsonl", 3, line), options())
    assert isinstance(found, Reject)
    assert found.custom_id == "s"
    unnamed_line = b'{"id": "\\ud83d"}'
    (unnamed,) = parse_row(RawRow("in.jsonl", 3, unnamed_line), options())
    assert isinstance(unnamed, Reject)
    assert unnamed.custom_id == "in.jsonl:3"


def test_texts_of_binary_columns_are_texts() -> None:
    cells: dict[str, Any] = {"prompt": "caf\u00e9".encode(), "id": b"a", "blob": b"\xff"}
    (found,) = parse_row(RawRow("in.parquet", 0, cells), options())
    assert isinstance(found, Request)
    assert (found.custom_id, found.prompt) == ("a", TextPrompt("caf\u00e9"))
    messages = json.dumps(MESSAGES).encode()
    (chat,) = parse_row(RawRow("in.parquet", 1, {"messages": messages}), options())
    assert isinstance(chat, Request)
    assert isinstance(chat.prompt, ChatPrompt)
    broken: dict[str, Any] = {"prompt": b"\xff\xfe"}
    (refused,) = parse_row(RawRow("in.parquet", 2, broken), options())
    assert isinstance(refused, Reject)
    assert refused.error.code is ErrorCode.INVALID_UTF8

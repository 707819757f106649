"""Every reject line is strict JSON in UTF-8 and gives the row back, whatever the row was."""

import base64
import datetime
import decimal
import hashlib
import json
import resource
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from promptmill.pipeline.write.rejects import RejectWriter, reject_line
from promptmill.schemas.errors import ErrorCode, ErrorValue, RowError, Stage
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.reject import is_reject_line, original_row, status_code
from promptmill.schemas.request import RawRow, Reject


def reject(
    data: bytes | JsonObject | None,
    *,
    code: ErrorCode = ErrorCode.INVALID_REQUEST,
    head: bytes = b"",
    value: ErrorValue = None,
    **more: Any,
) -> Reject:
    error = RowError(code, "a message", parameter="prompt", value=value, stage=Stage.PARSE)
    byte_range = None if isinstance(data, dict) else (100, 200)
    row = RawRow("in/file.jsonl", 4, data, error, byte_range, head)
    return Reject(row, error, **more)


def written(item: Reject) -> JsonObject:
    """The line as a strict reader sees it."""
    line = msgspec.json.encode(reject_line(item))
    assert b"\n" not in line
    assert b"\r" not in line
    decoded: JsonObject = msgspec.json.decode(line)
    assert decoded == json.loads(line)
    assert is_reject_line(decoded)
    return decoded


def test_a_line_has_the_batch_shape_and_the_place(tmp_path: Path) -> None:
    path = tmp_path / "rejects.jsonl"
    with RejectWriter(path) as writer:
        writer.write([reject(b'{"messages": []}', custom_id="a", prompt_index=2, value=7)])
        writer.write([])
        info = writer.close()
    content = path.read_bytes()
    assert (info.rows, info.bytes) == (1, len(content))
    assert info.sha256 == hashlib.sha256(content).hexdigest()
    line = json.loads(content)
    name = line["id"].removeprefix("reject-")
    body = {
        "message": "a message",
        "type": "invalid_request_error",
        "param": "prompt",
        "code": "invalid_request",
    }
    assert line == {
        "id": f"reject-{name}",
        "custom_id": "a",
        "response": {"status_code": 400, "request_id": f"req-{name}", "body": {"error": body}},
        "error": {
            "code": "invalid_request",
            "message": "a message",
            "param": "prompt",
            "value": 7,
        },
        "stage": "parse",
        "source": "in/file.jsonl",
        "row_index": 4,
        "prompt_index": 2,
        "request": {"messages": []},
    }


def test_ids_follow_from_the_place() -> None:
    one, again = reject(b"1"), reject(b"2")
    other = reject(b"1", prompt_index=1)
    assert written(one)["id"] == written(again)["id"] != written(other)["id"]


@pytest.mark.parametrize(
    "line",
    [
        b'{"a": 1, "a": 2.50, "b": 123456789012345678901234567890, "c": "\\u00e9"}\r',
        b'["no", "object"]',
        '{"text": "é\u2028"}'.encode(),
        b'{"image": {"$base64": "aGk="}}',
    ],
)
def test_strict_json_is_carried_as_it_stands(line: bytes) -> None:
    found = msgspec.json.decode(
        msgspec.json.encode(reject_line(reject(line))), type=dict[str, msgspec.Raw]
    )
    assert bytes(found["request"]) == msgspec.json.format(line.strip(), indent=-1)
    assert "raw" not in found
    back = original_row(written(reject(line)))
    assert isinstance(back, bytes)
    assert json.loads(back) == json.loads(line)


@pytest.mark.parametrize(
    "line",
    [
        b'{"temperature": NaN}',
        b'{"text": "\\ud800"}',
        b'{"text": "\xed\xa0\x80"',
        b'{"broken": ',
        b"null",
        b"not json",
        b"[" * 100_000 + b"]" * 100_000,
        b'{"number": ' + b"9" * 5000 + b"}",
    ],
    ids=lambda line: line[:20].decode(errors="replace"),
)
def test_what_strict_json_cannot_say_is_carried_as_text_or_head(line: bytes) -> None:
    found = written(reject(line))
    assert found["request"] is None
    try:
        text = line.decode()
    except UnicodeDecodeError:
        assert found["raw"] == {
            "byte_range": [100, 200],
            "head_base64": base64.b64encode(line).decode(),
        }
    else:
        assert found["raw"] == {"byte_range": [100, 200], "text": text}
        assert original_row(found) == line


def test_of_a_line_that_was_not_read_the_place_and_the_head_are_kept() -> None:
    found = written(reject(None, head=b"\xff" * 5000))
    assert found["request"] is None
    raw = found["raw"]
    assert isinstance(raw, dict)
    assert raw["byte_range"] == [100, 200]
    assert base64.b64decode(str(raw["head_base64"])) == b"\xff" * 4096
    assert original_row(found) is None


@pytest.mark.parametrize(
    "row", [b'{"a": 1}', b'{"broken', {"image": b"\x00"}, {"request": 1, "error": 2, "stage": 3}]
)
def test_a_reject_of_a_reject_carries_the_row_itself(row: bytes | JsonObject) -> None:
    first = written(reject(row, custom_id="a"))
    line = json.dumps(first).encode()
    second = written(reject(line, custom_id="a"))
    third = written(reject(json.dumps(second).encode(), custom_id="a"))
    carried = ("request", "raw", "columnar")
    for again in (second, third):
        assert [again.get(key) for key in carried] == [first.get(key) for key in carried]
        assert original_row(again) == original_row(first)
    around = {**second, "request": first, "raw": None, "columnar": False}
    nested = written(reject(json.dumps(around).encode()))
    assert [nested.get(key) for key in carried] == [first.get(key) for key in carried]


def test_a_reject_line_without_its_row_is_carried_as_a_row() -> None:
    bare = {"request": None, "error": {}, "stage": "parse"}
    assert written(reject(json.dumps(bare).encode()))["request"] == bare


def test_columnar_rows_keep_their_bytes() -> None:
    row: Any = {"image": {"bytes": b"\x00\xff", "path": None}, "parts": [b"", "x"]}
    found = written(reject(row))
    assert found["request"] == {
        "image": {"bytes": {"$base64": "AP8="}, "path": None},
        "parts": [{"$base64": ""}, "x"],
    }
    assert original_row(found) == row


def test_columnar_values_that_json_lacks() -> None:
    row: Any = {"day": datetime.date(2026, 1, 2), "price": decimal.Decimal("1.50")}
    assert original_row(written(reject(row))) == {"day": "2026-01-02", "price": "1.50"}
    odd: Any = {"temperature": float("nan"), "text": "\ud800", "image": b"\xff"}
    assert str(original_row(written(reject(odd)))) == str(odd)


def test_odd_texts_of_ours_do_not_break_a_line() -> None:
    item = reject(b"{}", custom_id="\ud800", value="\udfff")
    found = written(item)
    assert found["custom_id"] == "\ufffd"
    assert found["error"]["value"] == "\ufffd"  # type: ignore[index, call-overload] # JSON
    nan = written(reject(b"{}", value=float("nan")))
    assert nan["error"]["value"] == "nan"  # type: ignore[index, call-overload] # JSON


def test_an_error_inside_the_context_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "rejects.jsonl"
    with pytest.raises(ZeroDivisionError), RejectWriter(path):
        _ = 1 / 0
    assert not path.exists()


def test_a_full_disk_is_an_error_and_leaves_no_file(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        writer = RejectWriter(tmp_path / "rejects.jsonl")
        with pytest.raises(OSError, match="File too large"), writer:
            writer.write([reject(b"{}")] * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("code", ErrorCode)
def test_every_code_has_a_status(code: ErrorCode) -> None:
    assert status_code(code) in {400, 422, 500, 504}


any_text = st.text(st.characters(codec=None, exclude_categories=()))
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(any_text, inner),
    max_leaves=8,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary() | any_text.map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_line(line: bytes) -> None:
    back = original_row(written(reject(line)))
    if back is not None:
        assert back == line or json.loads(
            back if isinstance(back, bytes) else json.dumps(back)
        ) == (json.loads(line))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(any_text, any_json), any_text)
def test_any_columnar_row(row: JsonObject, custom_id: str) -> None:
    back = original_row(written(reject(row, custom_id=custom_id)))
    assert str(back) == str(row)

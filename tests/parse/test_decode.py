import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptmill.pipeline.parse.decode import LONG_LINE, MAX_NESTING, check_tree, decode_line
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import Json


def refused(line: bytes) -> RowError:
    with pytest.raises(RowError) as caught:
        decode_line(line)
    return caught.value


def is_accepted(line: bytes) -> bool:
    try:
        decode_line(line)
    except RowError:
        return False
    return True


def test_the_json_test_suite(shared: Path) -> None:
    paths = sorted((shared / "data" / "badfiles" / "json").glob("*.json"))
    accepted = {path.name for path in paths if is_accepted(path.read_bytes())}
    assert {p.name for p in paths if p.name.startswith("y_")} <= accepted
    # Python's own reader takes this one too, and the server uses it.
    assert {name for name in accepted if name.startswith("n_")} == {"n_number_NaN.json"}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'{"a": Infinity}', {"a": math.inf}),
        (b"[1e400, -1e400]", [math.inf, -math.inf]),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b'{"a": NaN, "b": 1, "b": 2}', {"a": math.nan, "b": 2}),
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        (b'"a\\u0000b"', "a\0b"),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b'{"a": 1}\r', {"a": 1}),
    ],
)
def test_what_the_server_reads(line: bytes, value: Json) -> None:
    assert repr(decode_line(line)) == repr(value)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b'{"a": ', ErrorCode.INVALID_JSON),
        (b"{'a': 1}", ErrorCode.INVALID_JSON),
        (b"9" * 5000, ErrorCode.INVALID_JSON),
        (b'{"a": "\xff"}', ErrorCode.INVALID_UTF8),
        (b'"\xed\xa0\x80"', ErrorCode.INVALID_UTF8),
        ('{"a": 1}'.encode("utf-16"), ErrorCode.INVALID_UTF8),
        (b"[" * 100_000, ErrorCode.NESTING_TOO_DEEP),
        (b'[{"":' * 50_000, ErrorCode.NESTING_TOO_DEEP),
        (b"[" * 600 + b"]" * 600, ErrorCode.NESTING_TOO_DEEP),
        (b'{"a": "\\ud800"}', ErrorCode.LONE_SURROGATE),
    ],
)
def test_what_is_refused(line: bytes, code: ErrorCode) -> None:
    assert refused(line).code is code


def test_the_place_of_a_fault_is_said() -> None:
    said = refused(b'{"a": "no end').message
    assert said == "This is not JSON: Unterminated string starting at character 6."


@pytest.mark.parametrize("opening", [b"[", b'{"k": '])
def test_the_nesting_bound_is_exact(opening: bytes) -> None:
    closing = {b"[": b"]", b'{"k": ': b"}"}[opening]

    def nested(levels: int) -> bytes:
        return b" " * 2000 + opening * levels + b"1" + closing * levels

    decode_line(nested(MAX_NESTING))
    assert refused(nested(MAX_NESTING + 1)).code is ErrorCode.NESTING_TOO_DEEP
    image = b'["' + b"A" * LONG_LINE + b'",'  # takes up one level itself
    decode_line(image + nested(MAX_NESTING - 1) + b"]")
    assert refused(image + nested(MAX_NESTING) + b"]").code is ErrorCode.NESTING_TOO_DEEP


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("\ud800", "at $ holds"),
        ({"messages": [{"content": "secret \udc00"}]}, "at $.messages[0].content holds"),
        ({"a key \ud800": 1}, "at a key of $ holds"),
        ({"b": {"odd name": ["x", "\ud800"]}}, "at $.b.?[1] holds"),
    ],
)
def test_a_lone_surrogate_is_found_without_its_text(value: Json, path: str) -> None:
    error = refused(json.dumps(value).encode())
    assert error.code is ErrorCode.LONE_SURROGATE
    assert path in error.message
    assert "secret" not in error.message
    error.message.encode()


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(any_json, st.booleans())
def test_agrees_with_the_standard_library(value: Json, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert repr(decode_line(text.encode())) == repr(json.loads(text))


@given(any_json)
def test_text_without_surrogates_passes(value: Json) -> None:
    check_tree(value)

"""Decoding tools once for many lines gives what decoding every line gives."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptmill.pipeline.parse import sharing
from promptmill.pipeline.parse.decode import decode_line
from promptmill.pipeline.parse.rows import parse_row
from promptmill.pipeline.parse.sharing import WORTH_IT, ToolSharing
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import Json
from promptmill.schemas.options import JobOptions
from promptmill.schemas.request import RawRow, Request

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
ROWS = st.dictionaries(st.sampled_from(["id", "messages", "tools", "body", "é", '"']), VALUES)
LONG = "x" * WORTH_IT.start
LONG_TOOLS = 1000
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"n": 1}}}


def line_of(row: Json, *, compact: bool) -> bytes:
    separators = (",", ":") if compact else None
    return json.dumps(row, ensure_ascii=False, separators=separators).encode()


@given(st.lists(ROWS, min_size=1, max_size=4), st.booleans())
def test_every_line_is_what_it_is_alone(rows: list[dict[str, Json]], compact: bool) -> None:
    lines = ToolSharing()
    for row in [*rows, *rows]:
        for whole in (row | {"pad": LONG}, {"body": {"pad": LONG} | row}):
            line = line_of(whole, compact=compact)
            alone = msgspec.json.decode(line)
            assert repr(lines.decode(line)) == repr(alone)
            assert repr(decode_line(line)) == repr(alone)


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("enveloped", [True, False])
def test_lines_share_their_tools(*, compact: bool, enveloped: bool) -> None:
    found, lines = [], ToolSharing()
    for text in ("a", "b", "c"):
        row = {"messages": [text + LONG], "tools": [TOOL]}
        line = line_of({"body": row} if enveloped else row, compact=compact)
        decoded = lines.decode(line)
        assert isinstance(decoded, dict)
        inner = decoded["body"] if enveloped else decoded
        assert isinstance(inner, dict)
        assert inner == row
        found.append(inner["tools"])
    assert found[1] is found[2]  # the first line only tells that there are tools


def test_nearly_the_same_tools_are_not_shared() -> None:
    lines = ToolSharing()
    for value in (1, 1.0, True, "1", 1):
        row = {"pad": LONG, "tools": [{"function": {"parameters": {"n": value}}}]}
        assert repr(lines.decode(line_of(row, compact=True))) == repr(row)


def test_a_field_that_another_hides_is_looked_at() -> None:
    good = line_of({"pad": LONG, "tools": [TOOL]}, compact=True)
    bad = b'{"tools":"\xff",' + good[1:]
    for _ in range(2):
        decode_line(good)
        with pytest.raises(RowError) as caught:
            decode_line(bad)
        assert caught.value.code is ErrorCode.INVALID_UTF8


def test_rows_come_out_the_same_first_second_and_third() -> None:
    tools = [{**TOOL, "function": {"name": f"f{i}", "description": LONG}} for i in range(3)]
    row = {"messages": [{"role": "user", "content": "hi"}], "tools": tools}
    options = JobOptions(input=("rows.jsonl",), output="out", model="m")
    raw = RawRow("rows.jsonl", 0, line_of(row, compact=False))
    first, *others = [parse_row(raw, options) for _ in range(3)]
    assert others == [first, first]
    assert isinstance(first[0], Request)


def test_what_is_remembered_is_bounded() -> None:
    lines = ToolSharing()
    for number in range(3 * sharing.KEPT):
        lines.decode(line_of({"pad": LONG, "tools": [{"n": number}]}, compact=True))
    assert len(lines._known) == sharing.KEPT
    huge = {"tools": [{"text": "x" * sharing.LARGEST_KEPT}]}
    for _ in range(2):
        assert lines.decode(line_of(huge, compact=True)) == huge
    assert all(len(raw) < LONG_TOOLS for raw, _ in lines._known)

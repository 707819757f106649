"""Rows that share their tools share the rebuilt ones; nothing else may follow from it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptmill.pipeline.parse import tools
from promptmill.pipeline.parse.tools import rebuild_tools
from promptmill.pipeline.render.to_json import to_json
from promptmill.schemas.errors import RowError
from promptmill.schemas.json_types import Json, JsonObject

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)


def tool(parameters: JsonObject) -> JsonObject:
    return {"type": "function", "function": {"name": "f", "parameters": parameters}}


@given(st.lists(st.dictionaries(st.text(), VALUES), min_size=1, max_size=3))
def test_kept_or_not_is_the_same(parameters: list[JsonObject]) -> None:
    given_tools = [tool(one) for one in parameters]
    wanted = repr(tools._rebuilt([*given_tools]))
    assert repr(rebuild_tools([*given_tools])) == wanted
    assert repr(rebuild_tools([*given_tools])) == wanted


@pytest.mark.parametrize("pair", [(1, 1.0), (1, True), (0.0, -0.0), (None, math.nan)])
def test_values_that_are_nearly_equal_stay_apart(pair: tuple[Json, Json]) -> None:
    for value in pair:
        parameters: JsonObject = {"default": value}
        assert to_json(parameters) == to_json(dict(parameters), separators=(", ", ": "))
        rebuilt = rebuild_tools([tool(parameters)])
        assert rebuilt is not None
        assert repr(rebuilt[0]["function"]["parameters"]) == repr(parameters)  # type: ignore[call-overload, index]


def test_the_order_of_keys_stays() -> None:
    assert to_json({"a": 1, "b": 2}) == '{"a": 1, "b": 2}'
    assert to_json({"b": 2, "a": 1}) == '{"b": 2, "a": 1}'


def test_refusals_are_not_kept() -> None:
    for _ in range(2):
        with pytest.raises(RowError, match=r"tools\[0\]"):
            rebuild_tools([{"type": "function"}])

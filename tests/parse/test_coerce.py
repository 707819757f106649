"""The conversions are pydantic's lax ones: pydantic itself says what is right."""

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from promptmill.pipeline.parse.coerce import (
    Check,
    Mismatch,
    boolean,
    either,
    integer,
    list_of,
    mapping,
    mapping_of,
    nullable,
    number,
    one_of,
    string,
    within,
)
from promptmill.schemas.json_types import Json

# No text with a leading zero: pydantic reads "0-7" as -7 and "0__6" as 6, by mistake.
numeric_text = st.from_regex(
    r"\s?[+-]?([1-9][0-9_]{0,4})?(\.[0-9_]{0,3})?(e[0-9])?\s?", fullmatch=True
)
words = st.sampled_from(["true", "FALSE", "yes", "No", "on", "off", "t", "f", "y", "n", " on"])
specials = st.sampled_from(["nan", "inf", "-Infinity", "٥", "0x1", "1e400", "infinit"])
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-3, 3),
    st.integers(-3, 3).map(float),
    st.floats(),
    st.text(max_size=5),
    numeric_text,
    words,
    specials,
)
values = scalars | st.lists(scalars, max_size=2) | st.dictionaries(st.text(max_size=2), scalars)


def ours(check: Check, value: Json) -> Any:
    try:
        return check(value)
    except Mismatch:
        return Mismatch


def theirs(kind: Any, value: Json) -> Any:
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError:
        return Mismatch


@pytest.mark.parametrize(
    ("check", "kind"), [(integer, int), (number, float), (boolean, bool), (string, str)]
)
@given(values)
@example(9.3e18)
@example(9007199254740993.0)
@example(10**400)
@example("9" * 4300)
@example("9" * 4301)
@example("1_000.00")
@example("5.")
@example("007")
@example("0_0")
@example("1E_0")
@example(" 1_0 ")
@example("\x1f5")
def test_scalars(check: Check, kind: type, value: Json) -> None:
    found, wanted = ours(check, value), theirs(kind, value)
    assert type(found) is type(wanted)
    assert found == wanted or (math.isnan(found) and math.isnan(wanted))


@pytest.mark.parametrize(
    ("check", "kind"),
    [
        (nullable(integer), int | None),
        (list_of(string), list[str]),
        (nullable(list_of(integer)), list[int] | None),
        (mapping_of(number), dict[str, float]),
        (mapping, dict[str, Any]),
    ],
)
@given(values)
def test_containers(check: Check, kind: Any, value: Json) -> None:
    assert repr(ours(check, value)) == repr(theirs(kind, value))


def test_bounds_and_choices() -> None:
    assert within(-1)("-1") == -1
    assert ours(within(-1), -2) is Mismatch
    assert ours(within(0, 5), 6) is Mismatch
    assert one_of("left", "right")("left") == "left"
    assert ours(one_of("left", "right"), "Left") is Mismatch
    assert ours(list_of(string, max_length=1), ["a", "b"]) is Mismatch


def test_a_mismatch_says_what_is_accepted() -> None:
    check = nullable(either(string, list_of(integer)))
    with pytest.raises(Mismatch, match="a string or a list or null"):
        check({})
    with pytest.raises(Mismatch, match="a string or a list whose items are each an integer"):
        check(["x"])

"""Checks of the request fields that have rules of their own. Profile rule.

Structural tags are checked in form only: their grammar needs the engine's compiler.
"""

from __future__ import annotations

from typing import Final

from promptmill.pipeline.parse.coerce import (
    Mismatch,
    anything,
    boolean,
    either,
    integer,
    list_of,
    mapping,
    nullable,
    one_of,
    record,
    string,
)
from promptmill.schemas import profile
from promptmill.schemas.json_types import Json

_TEXT: Final = nullable(string)
_SCHEMA: Final = nullable(mapping)
_FLAG: Final = nullable(boolean)

_CONSTRAINTS: Final = {
    "json": nullable(either(string, mapping)),
    "regex": _TEXT,
    "choice": nullable(list_of(string)),
    "grammar": _TEXT,
    "json_object": _FLAG,
    "structural_tag": _TEXT,
}
_STRUCTURED_OUTPUTS: Final = record(
    optional=_CONSTRAINTS
    | {
        "disable_any_whitespace": boolean,
        "disable_additional_properties": boolean,
        "whitespace_pattern": _TEXT,
    }
)

_NAMED_SCHEMA: Final = record(
    {"name": string}, {"description": _TEXT, "schema": _SCHEMA, "strict": _FLAG}
)
_STRUCTURE: Final = record({"begin": string, "end": string}, {"schema": _SCHEMA})

response_format: Final = either(
    record({"type": one_of("text", "json_object")}, {"json_schema": nullable(_NAMED_SCHEMA)}),
    record({"type": one_of("json_schema"), "json_schema": _NAMED_SCHEMA}),
    record({"type": one_of("structural_tag"), "format": anything}),
    record(
        {
            "type": one_of("structural_tag"),
            "structures": list_of(_STRUCTURE),
            "triggers": list_of(string),
        }
    ),
)
"""A response format of the OpenAI API, or a structural tag in its new or its old form."""


def structured_outputs(value: Json) -> Json:
    """An object with exactly one constraint."""
    checked = _STRUCTURED_OUTPUTS(value)
    given = mapping(checked)
    if sum(given.get(name) is not None for name in _CONSTRAINTS) != 1:
        raise Mismatch("an object with exactly one of " + ", ".join(_CONSTRAINTS))
    return checked


_REPETITION: Final = record(
    optional=dict.fromkeys(("max_pattern_size", "min_pattern_size", "min_count"), integer)
)


def repetition_detection(value: Json) -> Json:
    """Sizes 0 <= min_pattern_size <= max_pattern_size; min_count >= 2 where max is not 0."""
    checked = _REPETITION(value)
    given = mapping(checked)
    high, low, count = (
        integer(given.get(name, 0))
        for name in ("max_pattern_size", "min_pattern_size", "min_count")
    )
    if not 0 <= low <= high or (high > 0 and count < 2):
        raise Mismatch(
            "an object with 0 <= min_pattern_size <= max_pattern_size, and min_count >= 2 "
            "unless max_pattern_size is 0"
        )
    return checked


def cache_salt(value: Json) -> str:
    """A short string without characters that cache keys use."""
    if (
        isinstance(value, str)
        and 0 < len(value) <= profile.CACHE_SALT_LENGTH
        and not any(char in "@/\\\0" for char in value)
    ):
        return value
    raise Mismatch(
        f"a string of 1 to {profile.CACHE_SALT_LENGTH} characters without '@', '/', a backslash "
        "or NUL"
    )


def logprobs_count(value: Json) -> int:
    """An integer >= -1; unlike elsewhere, no string that spells one."""
    if isinstance(value, int | float):
        count = integer(value)
        if count >= -1:
            return count
    raise Mismatch("an integer >= -1")


def thinking_budget(value: Json) -> int:
    """An integer >= -1; nothing is converted."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= -1:
        return value
    raise Mismatch("an integer >= -1")

"""What a request field accepts, as the server's request models do in their lax mode.

A check takes a JSON value and gives the value the server would work with ("5" is 5 for a number);
it raises `Mismatch`, which says what is accepted. Profile rule (pydantic's conversion table).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from promptmill.schemas.json_types import Json

Check: TypeAlias = Callable[[Json], Json]

INT64: Final = (-(2**63), 2**63 - 1)
"""The range of fields that the engine keeps in 64 bits."""

_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
"""What is trimmed around numbers: Unicode's White_Space, which is not quite Python's."""
_GROUPED = re.compile(r"[^_\s]+(?:_[^_\s]+)+")
_INTEGER_TEXT = re.compile(r"[+-]?[0-9]+(?:_[0-9]+)*(?:\.0+)?")
_MAX_DIGITS = 4300
_BOOLEAN_TEXT = {
    **dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True),
    **dict.fromkeys(("0", "off", "f", "false", "n", "no"), False),
}


class Mismatch(ValueError):
    """A value that a field does not accept; the text says what it does, as a noun phrase."""


def string(value: Json) -> str:
    """A string; nothing is converted."""
    if isinstance(value, str):
        return value
    raise Mismatch("a string")


def integer(value: Json) -> int:
    """An integer, or a bool, a whole float in 64 bits, or a string that spells an integer."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and value.is_integer() and INT64[0] < value < INT64[1]:
        return int(value)
    if isinstance(value, str) and len(value) <= _MAX_DIGITS:
        text = value.strip(_SPACE)
        if _INTEGER_TEXT.fullmatch(text):
            return int(text.partition(".")[0])
    raise Mismatch("an integer")


def number(value: Json) -> float:
    """A number, or a string that spells one (inf and nan included)."""
    spelled = value
    if isinstance(value, str):
        grouped = _GROUPED.fullmatch(value) is not None
        spelled = value.replace("_", "") if grouped else value.strip(_SPACE)
        if "_" in spelled or not spelled.isascii():
            raise Mismatch("a number")
    if isinstance(spelled, int | float | str):
        try:
            return float(spelled)
        except (ValueError, OverflowError):
            pass
    raise Mismatch("a number")


def boolean(value: Json) -> bool:
    """A bool, 0 or 1, or one of the usual words in any case."""
    if isinstance(value, str):
        found = _BOOLEAN_TEXT.get(value.lower())
        if found is not None:
            return found
    elif isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    raise Mismatch("true or false")


def mapping(value: Json) -> dict[str, Json]:
    """An object."""
    if isinstance(value, dict):
        return value
    raise Mismatch("an object")


def anything(value: Json) -> Json:
    """Whatever it is."""
    return value


def within(low: int, high: int | None = None) -> Check:
    """An integer in [low, high]."""
    bounds = f"an integer >= {low}" if high is None else f"an integer from {low} to {high}"

    def check(value: Json) -> int:
        found = integer(value)
        if found < low or (high is not None and found > high):
            raise Mismatch(bounds)
        return found

    return check


def one_of(*choices: str) -> Check:
    """One of these strings, exactly."""
    accepted = "one of " + ", ".join(map(repr, choices))

    def check(value: Json) -> str:
        if isinstance(value, str) and value in choices:
            return value
        raise Mismatch(accepted)

    return check


def nullable(check: Check) -> Check:
    """What `check` accepts, or null."""

    def checked(value: Json) -> Json:
        if value is None:
            return None
        try:
            return check(value)
        except Mismatch as mismatch:
            raise Mismatch(f"{mismatch} or null") from mismatch

    return checked


def list_of(check: Check, *, max_length: int | None = None) -> Check:
    """A list of what `check` accepts."""

    def checked(value: Json) -> list[Json]:
        if not isinstance(value, list):
            raise Mismatch("a list")
        if max_length is not None and len(value) > max_length:
            raise Mismatch(f"a list of at most {max_length} items")
        try:
            return [check(item) for item in value]
        except Mismatch as mismatch:
            raise Mismatch(f"a list whose items are each {mismatch}") from mismatch

    return checked


def mapping_of(check: Check) -> Check:
    """An object whose values are what `check` accepts."""

    def checked(value: Json) -> dict[str, Json]:
        try:
            return {key: check(item) for key, item in mapping(value).items()}
        except Mismatch as mismatch:
            if not isinstance(value, dict):
                raise
            raise Mismatch(f"an object whose values are each {mismatch}") from mismatch

    return checked


def either(*checks: Check) -> Check:
    """What the first of `checks` that accepts makes of it."""

    def checked(value: Json) -> Json:
        wanted = []
        for check in checks:
            try:
                return check(value)
            except Mismatch as mismatch:
                wanted.append(str(mismatch))
        raise Mismatch(" or ".join(wanted))

    return checked


def record(
    required: Mapping[str, Check] | None = None, optional: Mapping[str, Check] | None = None
) -> Check:
    """An object with these fields; unknown ones are kept."""
    needed = required or {}
    fields = {**needed, **(optional or {})}

    def checked(value: Json) -> dict[str, Json]:
        found = dict(mapping(value))
        for name, check in fields.items():
            if name in found:
                try:
                    found[name] = check(found[name])
                except Mismatch as mismatch:
                    raise Mismatch(f"an object whose {name} is {mismatch}") from mismatch
            elif name in needed:
                raise Mismatch(f"an object with {name}")
        return found

    return checked

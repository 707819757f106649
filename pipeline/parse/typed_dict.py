"""How well a JSON object fits a TypedDict, as pydantic's unions weigh it.

Where several schemas accept a message, the server takes the one that recognises the most fields,
nested ones included; on a tie the first. Which one it takes decides what else is checked, so
fitting is counting. Profile rule (pydantic's smart unions).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from promptmill.pipeline.parse.coerce import Check, Mismatch
from promptmill.schemas.json_types import Json, JsonObject

Fit: TypeAlias = Callable[[Json], int | None]
"""Fields recognised inside a value; None where the value does not fit."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A TypedDict: unknown keys are allowed and count nothing."""

    fields: dict[str, Fit]
    """In the order in which the server rebuilds the object."""
    required: frozenset[str]

    def fit(self, value: Json) -> int | None:
        """Recognised fields of an object; None where it does not fit."""
        if not isinstance(value, dict) or not value.keys() >= self.required:
            return None
        total = 0
        for name, item in value.items():
            field = self.fields.get(name)
            if field is None:
                continue
            inner = field(item)
            if inner is None:
                return None
            total += 1 + inner
        return total

    def misfit(self, value: JsonObject) -> str | None:
        """The first field that is missing or does not fit."""
        for name, field in self.fields.items():
            if name not in value:
                if name in self.required:
                    return name
            elif field(value[name]) is None:
                return name
        return None

    def reordered(self, value: JsonObject) -> JsonObject:
        """A copy in schema order, unknown keys behind."""
        return {name: value[name] for name in self.fields if name in value} | value


def schema(required: dict[str, Fit] | None = None, /, **fields: Fit) -> Schema:
    """A schema of required and then optional fields."""
    required = required or {}
    return Schema(required | fields, frozenset(required))


def text(value: Json) -> int | None:
    """A string."""
    return 0 if isinstance(value, str) else None


def objects(value: Json) -> int | None:
    """Any object."""
    return 0 if isinstance(value, dict) else None


def literal(*choices: str) -> Fit:
    """One of these strings."""
    return lambda value: 0 if isinstance(value, str) and value in choices else None


def accepted_by(check: Check) -> Fit:
    """A scalar that a field check accepts."""

    def fit(value: Json) -> int | None:
        try:
            check(value)
        except Mismatch:
            return None
        return 0

    return fit


def optional(field: Fit) -> Fit:
    """Null, or what fits `field`."""
    return lambda value: 0 if value is None else field(value)


def best_of(*fields: Fit) -> Fit:
    """The most that any of `fields` recognises."""

    def fit(value: Json) -> int | None:
        fits = [found for field in fields if (found := field(value)) is not None]
        return max(fits, default=None)

    return fit


def items(field: Fit) -> Fit:
    """A list whose items all fit."""

    def fit(value: Json) -> int | None:
        if not isinstance(value, list):
            return None
        total = 0
        for item in value:
            inner = field(item)
            if inner is None:
                return None
            total += inner
        return total

    return fit

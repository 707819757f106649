"""A job's options as a command line has them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.options import JobOptions


def option_name(field: str) -> str:
    """`max_model_len` as people type it: `--max-model-len`."""
    return "--" + field.replace("_", "-")


def no_option_name(field: str) -> str:
    """What switches a field off: `--no-text` for `with_text`."""
    return option_name(f"no_{field.removeprefix('with_')}")


def arguments(options: JsonObject, leave_out: Collection[str] = ()) -> Iterator[tuple[str, ...]]:
    """Options with their values, a tuple each; without those at their defaults.

    Args:
        options: of a job, as JSON has them.
        leave_out: fields that are not wanted.
    """
    for name, field in JobOptions.model_fields.items():
        value = options.get(name)
        if name in leave_out or value is None or value == _default(field):
            continue
        option = option_name(name)
        if isinstance(value, bool):
            yield (option if value else no_option_name(name),)
        elif isinstance(value, list):
            yield from ((option, str(item)) for item in value)
        elif isinstance(value, dict):
            yield option, json.dumps(value, ensure_ascii=False)
        else:
            yield option, str(value)


def _default(field: FieldInfo) -> object:
    """As JSON has it."""
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is PydanticUndefined:
        return None
    return list(value) if isinstance(value, tuple) else value

"""JSON as Python sees it: the only loose type that crosses from parsing into the pipeline."""

from typing import Final, TypeAlias

from pydantic import JsonValue

Json: TypeAlias = JsonValue
JsonObject: TypeAlias = dict[str, JsonValue]

MARSHAL_VERSION: Final = 2
"""Of `marshal`, for a value's bytes as a key: the last whose bytes depend on the value alone, not
on what its objects are shared with."""

"""JSON as Python sees it: the only loose type that crosses from parsing into the pipeline."""

from typing import TypeAlias

from pydantic import JsonValue

Json: TypeAlias = JsonValue
JsonObject: TypeAlias = dict[str, JsonValue]

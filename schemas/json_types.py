"""JSON as Python sees it: the only loose type that crosses from parsing into the pipeline."""

from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = dict[str, Json]

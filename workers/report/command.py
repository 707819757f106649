"""The command that runs the rejects of a run again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.options import JobOptions
from promptmill.schemas.redact import redacted
from promptmill.schemas.run import RunRecord
from promptmill.workers.output_folder import OutputFolder

NOT_TAKEN_OVER = {"input", "output"}


def rerun_command(folder: OutputFolder, record: RunRecord) -> str:
    """A shell command with all options of the run, its rejects as input and an output beside.

    Credentials in URLs are left out; they must be put in again.
    """
    rejects = folder.rejects(0).parent.absolute()
    arguments = ["promptmill", "run", "-i", f"{rejects}/*.jsonl"]
    arguments += ["-o", f"{folder.root.absolute()}-rejects"]
    options: JsonObject = dict(record.options)  # type: ignore[arg-type]  # it was read as JSON
    if record.identity.get("clock") is not None:
        options["clock"] = record.clock  # templates ask for the time: they are told the same
    for option in option_arguments(options):
        # A value that begins with a dash must not be taken for an option.
        dashed = any(value.startswith("-") for value in option[1:])
        arguments += ["=".join(option)] if dashed else option
    command = redacted(shlex.join(arguments))
    return f"cd {shlex.quote(record.directory)} && {command}" if record.directory else command


def option_arguments(options: JsonObject) -> Iterator[tuple[str, ...]]:
    """Options as a command line has them, name and value; without those at their defaults."""
    for name, field in JobOptions.model_fields.items():
        value = options.get(name)
        if name in NOT_TAKEN_OVER or value is None or value == _default(field):
            continue
        option = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            plain = name.removeprefix("with_").replace("_", "-")
            yield (option if value else f"--no-{plain}",)
        elif isinstance(value, list):
            for item in value:
                yield option, str(item)
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

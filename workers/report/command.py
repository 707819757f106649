"""The command that runs the rejects of a run again."""

from __future__ import annotations

import shlex

from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.redact import redacted
from promptmill.schemas.run import RunRecord
from promptmill.workers.arguments import arguments
from promptmill.workers.output_folder import OutputFolder

NOT_TAKEN_OVER = ("input", "output")


def rerun_command(folder: OutputFolder, record: RunRecord) -> str:
    """A shell command with all options of the run, its rejects as input and an output beside.

    Credentials in URLs are left out; they must be put in again.
    """
    rejects = folder.rejects(0).parent.absolute()
    words = ["promptmill", "run", "-i", f"{rejects}/*.jsonl"]
    words += ["-o", f"{folder.root.absolute()}-rejects"]
    options: JsonObject = dict(record.options)  # type: ignore[arg-type]  # it was read as JSON
    if record.identity.get("clock") is not None:
        options["clock"] = record.clock  # templates ask for the time: they are told the same
    for option in arguments(options, NOT_TAKEN_OVER):
        # A value that begins with a dash must not be taken for an option.
        dashed = any(value.startswith("-") for value in option[1:])
        words += ["=".join(option)] if dashed else option
    command = redacted(shlex.join(words))
    return f"cd {shlex.quote(record.directory)} && {command}" if record.directory else command


def where_to_run(record: RunRecord) -> str | None:
    """What must be known about the place of the command; None where it runs anywhere."""
    if record.options.get("address") != "auto":
        return None
    return (
        "This run found its Ray cluster by itself (--address auto), as submitted jobs do: start "
        "the command on a machine of that cluster. From elsewhere: promptmill submit in place of "
        "promptmill run, and --address http://HEAD:8265, the cluster's dashboard."
    )

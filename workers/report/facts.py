"""What a job is: versions and fingerprints, options, input files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.redact import redacted
from promptmill.workers.arguments import arguments
from promptmill.workers.report.command import NOT_TAKEN_OVER
from promptmill.workers.report.gather import Gathered

LONGEST_VALUE = 300


def facts(found: Gathered) -> Iterator[tuple[str, str]]:
    """Versions, fingerprints and times."""
    record, identity = found.record, found.record.identity
    yield "job fingerprint", record.fingerprint
    yield "rules", str(identity.get("rules"))
    versions = identity.get("versions")
    if isinstance(versions, dict):
        yield from ((f"version of {name}", str(value)) for name, value in versions.items())
    for name in ("tokenizer", "chat template", "model config"):
        yield f"{name} sha256", str(identity.get(name))
    yield "time told to templates", record.clock + ("" if identity.get("clock") else " (not asked)")
    yield "first start", record.started
    if record.finished:
        yield "finished", record.finished
    if record.totals is not None and record.totals.rows_resumed:
        yield "done by earlier starts", f"{record.totals.rows_resumed:,} prompts"


def options(found: Gathered) -> Iterator[tuple[str, str]]:
    """Options that have not their default, as on a command line."""
    given: JsonObject = dict(found.record.options)  # type: ignore[arg-type]  # it was read as JSON
    for name, *values in arguments(given, NOT_TAKEN_OVER):
        value = redacted(" ".join(values))
        yield name, value if len(value) <= LONGEST_VALUE else value[: LONGEST_VALUE - 3] + "..."


def files(identity: Mapping[str, object]) -> Iterator[tuple[str, str, str]]:
    """Name, bytes and sha256 of each input file."""
    named = identity.get("input")
    for file in named if isinstance(named, list) else []:
        if isinstance(file, dict):
            name, size = file.get("name"), file.get("size")
            shown = f"{size:,}" if isinstance(size, int) else json.dumps(size)
            yield redacted(str(name)), shown, str(file.get("sha256"))

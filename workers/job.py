"""A job, resolved where the run starts: options, model, shards, clock, fingerprint."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from promptmill.pipeline.media.own_family import family_source
from promptmill.pipeline.model.bundle_cache import load_bundle_cached
from promptmill.pipeline.model.length import check_max_model_len
from promptmill.pipeline.read.plan import plan_input
from promptmill.pipeline.render.resolve import template_text
from promptmill.pipeline.storage.place import Place, place_of
from promptmill.pipeline.storage.systems import protocol_of
from promptmill.schemas import profile
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import JobError
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.options import EngineName, JobOptions
from promptmill.schemas.shard import InputCompression, InputFile, InputKind, Plan
from promptmill.workers.fingerprint import fingerprint, identity
from promptmill.workers.first_look import first_look
from promptmill.workers.output_folder import OutputFolder
from promptmill.workers.start_probe import probe_job

SMALL_BYTES: Final = 2 << 20
"""Input that takes the reference engine about as long as a fast one takes to load."""
UNPACKED: Final = 8
"""How many bytes one of compressed or columnar input may stand for; text is about a third."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Everything a run needs to know before it starts. Nothing is written yet."""

    options: JobOptions
    """With what depends on the model filled in."""
    bundle: ModelBundle
    plan: Plan
    planned_at: float
    """When planning began (Unix time)."""
    clock: datetime
    """What templates are told the time is."""
    probed: tuple[str, ...]
    """What a look at the model, its template and the first row found."""
    identity: JsonObject
    fingerprint: str
    folder: OutputFolder

    @property
    def warnings(self) -> tuple[str, ...]:
        """What loading, probing and planning noticed."""
        return (*self.bundle.warnings, *self.probed, *self.plan.warnings)

    @property
    def worker_options(self) -> JobOptions:
        """The options with the engine that is worth loading; records keep what was asked for."""
        if self.options.engine is EngineName.AUTO and _is_small(self.plan):
            return self.options.model_copy(update={"engine": EngineName.TOKENIZERS})
        return self.options

    @property
    def metadata(self) -> dict[str, str]:
        """What every part says about its making."""
        return {
            "fingerprint": self.fingerprint,
            "tokenizer_mode": self.bundle.tokenizer_mode,
            "tokenizer_sha256": self.bundle.sha256(),
            "chat_template_sha256": self.bundle.sha256(templates=True),
            "rules": profile.NAME,
            "versions": json.dumps(self.identity["versions"], sort_keys=True),
            "offset_unit": "code points of the rendered prompt",
        }


def resolve_job(options: JobOptions) -> Job:
    """Load the model and plan the input.

    A job that was started before keeps the clock of its first start.

    Raises:
        JobError: the output folder is refused, or the model or the input cannot be used.
    """
    folder = OutputFolder(place_of(options.output), format=options.format)
    _check_fits(folder.root, options)
    folder.check()
    _check_apart(folder.root, options.input)
    bundle = load_bundle_cached(options)
    options = options.model_copy(
        update={
            "max_model_len": check_max_model_len(bundle, options.max_model_len),
            "chat_template": template_text(options.chat_template, bundle),
            "media_family": family_source(options.media_family),
        }
    )
    clock = options.clock or _recorded_clock(folder) or datetime.now(UTC).astimezone()
    probed = probe_job(bundle, options, clock)
    planned_at = time.time()
    plan = plan_input(options)
    probed = (*probed, *first_look(options, plan))
    parts = identity(plan, bundle, options, clock)
    return Job(
        options=options,
        bundle=bundle,
        plan=plan,
        planned_at=planned_at,
        clock=clock,
        probed=probed,
        identity=parts,
        fingerprint=fingerprint(parts),
        folder=OutputFolder(folder.root, len(plan.shards), options.format),
    )


def _check_apart(output: Place, inputs: tuple[str, ...]) -> None:
    """Parts inside an input folder would be input to the next start."""
    place = str(output.resolve() if isinstance(output, Path) else output)
    for name in inputs:
        given = name if protocol_of(name) else str(Path(name).resolve())
        if f"{place}/".startswith(f"{given.rstrip('/')}/"):
            raise JobError(
                f"The output {output} lies in the input {name}. Name an output folder outside."
            )


def _check_fits(output: Place, options: JobOptions) -> None:
    """What an output in an object store cannot have."""
    if isinstance(output, Path):
        return
    if options.pack is not None:
        raise JobError("--pack needs an output folder of a file system; copy the parts to one.")
    if protocol_of(str(output)) == "memory" and not options.local:
        raise JobError("An output in memory:// is gone with its process; it is for --local only.")


def _is_small(plan: Plan) -> bool:
    """Whether the reference engine is done before a fast one is loaded and compared with it."""
    return sum(_weight(file) for file in plan.files) <= SMALL_BYTES


def _weight(file: InputFile) -> int:
    plain = file.kind is InputKind.JSONL and file.compression is InputCompression.NONE
    return file.size if plain else file.size * UNPACKED


def _recorded_clock(folder: OutputFolder) -> datetime | None:
    record = folder.read_record()
    return None if record is None else datetime.fromisoformat(record.clock)

"""Engine outputs to a file of answers: read, decode, write, in this process."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from promptmill.pipeline.decode.base import ReplyReader
from promptmill.pipeline.decode.lines import error_line, reply_line
from promptmill.pipeline.decode.load import load_reader
from promptmill.pipeline.model.load import load_bundle
from promptmill.pipeline.read.outputs import read_outputs
from promptmill.pipeline.write.publish import publish
from promptmill.schemas.errors import JobError, RowError
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.options import JobOptions
from promptmill.schemas.outputs import EngineOutput
from promptmill.workers.summary import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeJob:
    """What is to be decoded, and how."""

    inputs: tuple[str, ...]
    """Parquet files or folders of them."""
    output: Path
    """The file of answers, a new one."""
    model: str
    revision: str | None = None
    tokenizer_mode: str = "auto"
    ids_column: str | None = None
    served_model_name: str | None = None
    """The model's name in answers to rows that name none; None: as in `model`."""
    thinking: bool = True
    tool_calls: bool = True
    """For rows that do not say how they are to be read; see `DeepseekReader`."""


def decode_outputs(job: DecodeJob, warn: Callable[[str], None]) -> str:
    """Decode everything.

    Args:
        job: what and how.
        warn: takes what was odd about the model, and ids that it does not have.

    Returns:
        What was counted, in words.

    Raises:
        JobError: the model, the input or the output cannot be used; nothing is left behind.
    """
    if job.output.is_dir():
        raise JobError(f"-o {job.output} is a folder. Name the file that the answers go to.")
    if job.output.exists():
        raise JobError(
            f"-o {job.output} is there already, and nothing was touched. Name a new one."
        )
    options = JobOptions(
        input=job.inputs,
        output=str(job.output),
        model=job.model,
        revision=job.revision,
        tokenizer_mode=job.tokenizer_mode,
        max_model_len=1,  # no prompt is measured: that a config names no length does not matter
    )
    bundle = load_bundle(options)
    for warning in bundle.warnings:
        warn(warning)
    bundle = replace(bundle, name=job.served_model_name or bundle.name)
    reader = load_reader(bundle, int(time.time()), thinking=job.thinking, tool_calls=job.tool_calls)
    temporary = job.output.with_name(f".{job.output.name}.tmp")
    try:
        job.output.parent.mkdir(parents=True, exist_ok=True)
        counts = _write(job, reader, temporary)
        if not publish(temporary, job.output):
            raise JobError(f"Something came to stand at {job.output} meanwhile. Name a new one.")
    except OSError as error:
        raise JobError(
            f"-o {job.output} cannot be written: {error.strerror}. Check the path and the disk."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
    if counts["bare"]:
        warn(
            f"{counted(counts['bare'], 'answer')} came without the column request of its row: "
            "stop strings, skip_special_tokens and model are not known. Bring the columns "
            "num_tokens, max_tokens and request over by custom_id"
        )
    if counts["unknown"]:
        warn(
            f"{counted(counts['unknown'], 'id')} outside of the vocabulary, without text: is "
            f"{job.model} the model that answered?"
        )
    if counts["again"]:
        warn(
            f"{counted(counts['again'], 'answer')} with a custom_id that an answer before has, "
            "too; each is a line of its own, with an id of its own"
        )
    return (
        f"{counted(counts['answers'], 'answer')}, {counted(counts['errors'], 'error')}; "
        f"{counted(counts['tokens'], 'id')}, {counts['unknown']:,} of them unknown; "
        f"{counted(counts['incomplete'], 'answer')} ended inside a character"
    )


@dataclass(slots=True)
class _Turns:
    """Tells answers to the same row apart; keeps a number an answer, not its id."""

    seen: set[int] = field(default_factory=set)
    again: Counter[str] = field(default_factory=Counter)

    def turn(self, custom_id: str) -> int:
        """How many answers to the row came before."""
        key = hash(custom_id)
        if key not in self.seen:
            self.seen.add(key)
            return 0
        self.again[custom_id] += 1
        return self.again[custom_id]


def _write(job: DecodeJob, reader: ReplyReader, path: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    turns = _Turns()
    with path.open("w", encoding="utf-8") as file:
        for found in read_outputs(job.inputs, job.ids_column):
            custom_id = found.custom_id if isinstance(found, EngineOutput) else found[0]
            turn = turns.turn(custom_id)
            counts["again"] += turn > 0
            file.write(json.dumps(_line(found, reader, counts, turn), ensure_ascii=False) + "\n")
    return counts


def _line(
    found: EngineOutput | tuple[str, RowError],
    reader: ReplyReader,
    counts: Counter[str],
    turn: int,
) -> JsonObject:
    if isinstance(found, EngineOutput):
        try:
            reply = reader.read(found)
        except RowError as error:
            counts["errors"] += 1
            return error_line(found.custom_id, error, turn)
        counts["answers"] += 1
        counts["bare"] += not found.has_request
        counts["tokens"] += len(found.token_ids)
        counts["unknown"] += reply.unknown_ids
        counts["incomplete"] += reply.incomplete
        return reply_line(found.custom_id, reply, turn)
    counts["errors"] += 1
    return error_line(*found, turn)

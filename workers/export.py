"""A finished run in a form that other tools read. Whole under its name, or not there at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from promptmill.pipeline.read.finished import (
    finished_parts,
    local_folder,
    part_batches,
    row_arrays,
)
from promptmill.pipeline.write.megatron import write_indexed
from promptmill.pipeline.write.names import new_attempt, temporary_name
from promptmill.pipeline.write.publish import publish
from promptmill.pipeline.write.readback import generate_request, media_overlap
from promptmill.pipeline.write.saved_set import write_saved_set
from promptmill.schemas.errors import JobError
from promptmill.schemas.export import ExportTo
from promptmill.schemas.options import MediaIds, Task
from promptmill.schemas.request import Ids
from promptmill.schemas.run import RunState
from promptmill.workers.finished_run import FinishedRun
from promptmill.workers.ledger import read_ledger
from promptmill.workers.output_folder import no_run_in
from promptmill.workers.summary import counted

_REQUEST_COLUMNS: Final = (
    "custom_id",
    "prompt_token_ids",
    "max_tokens",
    "mm_placeholders",
    "request",
)


@dataclass(slots=True)
class Exported:
    """What came of an export."""

    rows: int = 0
    tokens: int = 0
    notes: list[str] = field(default_factory=list)
    """Sentences for a person."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A finished run."""

    run: FinishedRun
    parts: Sequence[Path]
    rows: int
    media: int


def export(output: str | Path, to: ExportTo, destination: str | Path) -> Exported:
    """Write a run's rows for another tool, in their order; memory does not grow with the run.

    Args:
        output: the folder of a finished run.
        to: what for.
        destination: a new file or folder; for Megatron what both names begin with.

    Raises:
        JobError: the run is not finished, its rows make no sense there, or something stands at
            the destination. Nothing is left behind.
    """
    output, destination = local_folder(output), local_folder(destination)
    source = _open(output)
    _check_sense(source, to)
    finals = _finals(to, destination)
    _check_free(finals, output)
    destination.parent.mkdir(parents=True, exist_ok=True)
    attempt = new_attempt()
    made = {final.with_name(temporary_name(final.name, attempt)): final for final in finals}
    try:
        done = _WRITERS[to](source, list(made))
        _publish(made)
    finally:
        for temporary in made:
            _remove(temporary)
    return done


def _open(output: Path) -> _Source:
    run = FinishedRun.open(output)
    if run is None:
        raise no_run_in(output)
    ledger = read_ledger(run.folder)
    if run.record.state is not RunState.FINISHED or len(ledger.committed) < run.record.shards:
        raise JobError(
            f"The run in {output} is not finished: {len(ledger.committed):,} of "
            f"{counted(run.record.shards, 'shard')} are committed. Its command continues it."
        )
    if not ledger.totals.rows_ok:
        raise JobError(f"The run in {output} has no token rows. There is nothing to export.")
    media = sum(ledger.totals.media.values())
    return _Source(run, finished_parts(output), ledger.totals.rows_ok, media)


def _check_sense(source: _Source, to: ExportTo) -> None:
    task, media_ids = source.run.options.task, source.run.options.media_ids
    if to is ExportTo.JSONL_VLLM and task is not Task.GENERATE:
        raise JobError(
            f"The rows were made with --task {task}: they end without a generation prompt and have "
            "no output budget, so no server should answer them. Make a run with --task generate."
        )
    if to is ExportTo.JSONL_VLLM and source.media and media_ids is MediaIds.COLLAPSED:
        raise JobError(
            "The rows have media with one placeholder each (--media-ids collapsed), and the bodies "
            "need all ids of an item. Make a run with --media-ids expanded."
        )
    if to is ExportTo.MEGATRON and source.media:
        raise JobError(
            f"The rows have {counted(source.media, 'media item')}, and Megatron's indexed files "
            "hold ids only: a model would learn placeholders. Export to hf, or make a run of the "
            "rows without media."
        )


def _finals(to: ExportTo, destination: Path) -> list[Path]:
    """The names to be written; Megatron looks for the index, so it comes last."""
    if to is ExportTo.MEGATRON:
        return [destination.with_name(f"{destination.name}.{end}") for end in ("bin", "idx")]
    return [destination]


def _check_free(finals: Sequence[Path], output: Path) -> None:
    for final in finals:
        if final.exists():
            raise JobError(f"{final} is there already, and nothing was touched. Name a new one.")
        if final.absolute().is_relative_to(output.absolute()):
            raise JobError(f"{final} lies in the run's folder {output}. Name a place outside.")


def _publish(made: Mapping[Path, Path]) -> None:
    """Give the files their names, all of them or none."""
    published: list[Path] = []
    for temporary, final in made.items():
        if temporary.is_dir():
            temporary.rename(final)  # fails where something has come to stand there
        elif not publish(temporary, final):
            for one in published:
                one.unlink()
            raise JobError(f"Something came to stand at {final} meanwhile. Name a new one.")
        published.append(final)


def _remove(temporary: Path) -> None:
    if temporary.is_dir():
        shutil.rmtree(temporary, ignore_errors=True)
    else:
        temporary.unlink(missing_ok=True)


def _megatron(source: _Source, paths: Sequence[Path]) -> Exported:
    try:
        tokens = write_indexed(paths[0], paths[1], _ids(source.parts), source.rows)
    except ValueError as error:
        raise JobError(
            f"The parts do not hold what their receipts say ({error}). Give the run's command "
            "again, which does lost parts again."
        ) from error
    notes = []
    if source.run.options.mask_wanted and (outside := _outside_the_mask(source.parts)):
        notes.append(
            "the loss mask is not in the files: Megatron will learn "
            f"{counted(outside, 'id')} outside of it, too"
        )
    return Exported(source.rows, tokens, notes=notes)


def _outside_the_mask(parts: Sequence[Path]) -> int:
    """How many ids the masks of the rows leave out; a row without a mask leaves out none."""
    return sum(
        int(np.count_nonzero(batch.column(0).flatten().to_numpy() == 0))
        for part in parts
        for batch in part_batches(part, ("assistant_mask",))
    )


def _ids(parts: Sequence[Path]) -> Iterator[Ids]:
    for part in parts:
        for batch in part_batches(part, ("prompt_token_ids",)):
            yield from (ids for ids in row_arrays(batch.column(0)) if ids is not None)


def _saved_set(source: _Source, paths: Sequence[Path]) -> Exported:
    paths[0].mkdir()
    rows, tokens = write_saved_set(
        paths[0],
        source.parts,
        source.run.record.fingerprint[:16],
        labels=source.run.options.task is not Task.POOLING,
    )
    return Exported(rows, tokens)


def _requests(source: _Source, paths: Sequence[Path]) -> Exported:
    done, overlapping = Exported(), 0
    with paths[0].open("xb") as file:
        for part in source.parts:
            for batch in part_batches(part, _REQUEST_COLUMNS):
                for row in batch.to_pylist():
                    file.write(msgspec.json.encode(generate_request(row)) + b"\n")
                    done.rows += 1
                    done.tokens += len(row["prompt_token_ids"])
                    overlapping += media_overlap(row["mm_placeholders"])
    if source.media:
        done.notes.append(
            "media are named by their hashes: the server must have them in its cache already"
        )
    if overlapping:
        done.notes.append(
            f"{counted(overlapping, 'row')} with media that share an id: vLLM refuses such a body, "
            "so send these as chats"
        )
    return done


_WRITERS: Final[dict[ExportTo, Callable[[_Source, Sequence[Path]], Exported]]] = {
    ExportTo.MEGATRON: _megatron,
    ExportTo.HF: _saved_set,
    ExportTo.JSONL_VLLM: _requests,
}

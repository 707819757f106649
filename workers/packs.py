"""`--pack`: after a run, an index of packed sequences over its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from promptmill.pipeline.read.finished import finished_parts
from promptmill.pipeline.read.packs import read_pack_totals
from promptmill.pipeline.storage.place import local
from promptmill.pipeline.write.names import new_attempt, temporary_name
from promptmill.pipeline.write.packs import write_packs
from promptmill.schemas.packs import PackTotals
from promptmill.workers.job import Job
from promptmill.workers.summary import counted


def has_packs(job: Job) -> bool:
    """Whether the index that the job asks for is there, or none is asked for."""
    size = job.options.pack
    return size is None or read_pack_totals(local(job.folder.packs(size))) is not None


def pack(job: Job, stopped: Callable[[], bool]) -> None:
    """Write the index that the job asks for, whole or not at all; a damaged one is replaced.

    Args:
        job: whose parts are all committed.
        stopped: asked from time to time whether to give up.
    """
    size = job.options.pack
    assert size is not None
    index = local(job.folder.packs(size))
    temporary = job.folder.temporary / temporary_name(index.name, new_attempt())
    made = write_packs(
        temporary, finished_parts(local(job.folder.root)), size, job.fingerprint, stopped=stopped
    )
    if made is not None:
        index.parent.mkdir(exist_ok=True)
        temporary.replace(index)


def pack_lines(job: Job) -> Iterator[str]:
    """What a person is told about the index that the job asks for."""
    size = job.options.pack
    totals = None if size is None else read_pack_totals(local(job.folder.packs(size)))
    if totals is None:
        return
    yield (
        f"packed: {counted(totals.rows, 'row')} in {counted(totals.packs, 'sequence')} of at most "
        f"{counted(totals.size, 'id')}, {100 * totals.waste:.2f} % of them left empty"
    )
    yield from _left_out(totals)


def _left_out(totals: PackTotals) -> Iterator[str]:
    if totals.too_long:
        yield (
            f"  {counted(totals.too_long, 'row')} longer than that in no sequence, first "
            f"{totals.first_too_long}: cut rows to fit (--truncate-prompt-tokens {totals.size}), "
            "or give a larger --pack"
        )

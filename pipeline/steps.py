"""What the steps of the encoder hand to each other, and how a row drops out of a batch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from promptmill.pipeline.params import TokenizeParams
from promptmill.pipeline.tokenize import Tokens
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.media import MediaSpan
from promptmill.schemas.request import RawRow, Rendered, Request

log = logging.getLogger(__name__)

R = TypeVar("R")


class Job(msgspec.Struct, frozen=True):
    """A request on its way, with the row it came from and the rules for it."""

    raw: RawRow
    request: Request
    params: TokenizeParams


class RenderedJob(msgspec.Struct, frozen=True):
    """A job and its rendered prompt."""

    job: Job
    rendered: Rendered


class TokenizedJob(msgspec.Struct, frozen=True):
    """A rendered job and its ids, as far as they are cut and expanded."""

    job: Job
    rendered: Rendered
    tokens: Tokens
    spans: tuple[MediaSpan, ...] = ()


Refuse: TypeAlias = Callable[[Job, RowError, Stage], None]
"""Takes a job that failed, and why."""


def keep(
    jobs: Sequence[Job], results: Sequence[R | RowError], refuse: Refuse, stage: Stage
) -> Iterator[tuple[int, R]]:
    """The results that went well, with their place in `jobs`; the others are refused."""
    for index, (job, result) in enumerate(zip(jobs, results, strict=True)):
        if isinstance(result, RowError):
            refuse(job, result, stage)
        else:
            yield index, result


def each(
    step: Callable[[TokenizedJob], R], items: Iterable[TokenizedJob], refuse: Refuse, stage: Stage
) -> Iterator[R]:
    """One step over many rows; a row that fails is refused, whatever the failure."""
    for item in items:
        try:
            yield step(item)
        except RowError as error:
            refuse(item.job, error, stage)
        except Exception as error:  # one row must not take the others with it
            log.exception("%s failed in step %s", item.job.request.place, stage)
            refuse(item.job, internal_error(error), stage)


def internal_error(error: Exception) -> RowError:
    """A failure of ours, without anything of the row's content."""
    return RowError(
        ErrorCode.INTERNAL_ERROR,
        f"promptmill failed on this row ({type(error).__name__}); the log has the details. "
        "Please report it.",
    )

"""Raw rows to jobs: parsed, their ids unlike each other's, their budgets possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from promptmill.pipeline.params import TokenizeParams
from promptmill.pipeline.parse.rows import parse_row
from promptmill.pipeline.steps import Job
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.options import JobOptions
from promptmill.schemas.request import RawRow, Reject, Request


@dataclass(slots=True)
class Intake:
    """Takes the rows of one shard after another."""

    options: JobOptions
    admit: Callable[[Request], TokenizeParams]
    """The rules for a request; raises RowError where it is refused."""
    _ids_seen: set[str] = field(default_factory=set)

    def start_shard(self) -> None:
        """Forget the ids seen: duplicates are looked for within a shard."""
        self._ids_seen.clear()

    def take(self, rows: Sequence[RawRow], rejects: list[Reject]) -> tuple[list[Job], int]:
        """The jobs of some rows and the number of blank lines; rejects are appended."""
        jobs: list[Job] = []
        blank = 0
        for row in rows:
            found = parse_row(row, self.options)
            blank += not found
            for item in found:
                taken = item if isinstance(item, Reject) else self._job(row, item)
                if isinstance(taken, Reject):
                    rejects.append(taken)
                    if taken.custom_id is not None:
                        self._ids_seen.add(taken.custom_id)
                else:
                    jobs.append(taken)
        return jobs, blank

    def _job(self, row: RawRow, request: Request) -> Job | Reject:
        try:
            self._check_id(request.custom_id)
            return Job(row, request, self.admit(request))
        except RowError as error:
            error.stage = error.stage or Stage.PARSE
            return Reject(row, error, request.custom_id, request.place.prompt_index)

    def _check_id(self, custom_id: str) -> None:
        if custom_id in self._ids_seen:
            raise RowError(
                ErrorCode.DUPLICATE_ID,
                f"The id {custom_id[:200]!r} was already seen in this shard. Give every row an id "
                "of its own, or none.",
                parameter="custom_id",
            )
        self._ids_seen.add(custom_id)

"""A run that was made: its options, its parts, and the rows that they were made of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from promptmill.pipeline.read.plan import plan_input
from promptmill.pipeline.read.stored import StoredPart
from promptmill.pipeline.storage.place import Place
from promptmill.schemas.errors import JobError
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.options import JobOptions
from promptmill.schemas.run import RunRecord, Totals
from promptmill.schemas.shard import Plan
from promptmill.workers.output_folder import OutputFolder


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """The committed shards of an output folder; the run need not be at its end."""

    folder: OutputFolder
    record: RunRecord
    options: JobOptions

    @classmethod
    def open(cls, root: Place, media_family: str | None = None) -> FinishedRun | None:
        """The run of a folder; None where there is none.

        Args:
            root: the folder.
            media_family: as the run was given one: code that a folder names is not run.

        Raises:
            JobError: what the folder says of its run is damaged.
        """
        record = OutputFolder(root).read_record()
        if record is None:
            return None
        options = JobOptions.model_validate({**record.options, "media_family": media_family})
        return cls(OutputFolder(root, record.shards, options.format), record, options)

    @property
    def clock(self) -> datetime:
        """What templates were told the time is."""
        return datetime.fromisoformat(self.record.clock)

    def committed(self) -> list[tuple[int, Totals]]:
        """The committed shards, rising, and their counts."""
        found = self.folder.receipts()
        return [(shard, receipt.totals) for shard, receipt in found if receipt is not None]

    def part(self, shard: int) -> StoredPart:
        """The token rows of a shard."""
        return StoredPart(self.folder.part(shard))

    def rejects(self, shard: int) -> Iterator[JsonObject]:
        """The lines of a shard's rejects file."""
        path = self.folder.rejects(shard)
        if path.exists():
            with path.open("rb") as lines:
                for line in lines:
                    yield json.loads(line)

    def plan(self) -> Plan:
        """The input, cut as it was for the run.

        Raises:
            JobError: it is gone, or no longer what the run read.
        """
        try:
            plan = plan_input(self.options)
        except JobError as error:
            raise JobError(f"The run's input is read again, and is not there. {error}") from error
        now = {file.name: plan.content[file.name] for file in plan.files}
        before = self.record.identity.get("input")
        files = before if isinstance(before, list) else []
        then = {f["name"]: f["sha256"] for f in files}
        if now != then:
            names = sorted(n for n in now.keys() | then.keys() if now.get(n) != then.get(n))
            raise JobError(
                f"The input is not what the run read: {', '.join(names[:3])} differs. Put the old "
                "files back, or run again."
            )
        return plan

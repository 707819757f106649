"""The output folder: what may lie in it, and where everything goes.

Nothing but parts and `_promptmill/` is ever in it, and a folder that holds anything else is
refused and left as it is.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from promptmill.pipeline.write.names import (
    PRIVATE,
    packs_name,
    part_name,
    receipt_name,
    rejects_name,
)
from promptmill.schemas.errors import JobError
from promptmill.schemas.options import OutputFormat
from promptmill.schemas.run import Receipt, RunRecord

OURS = {"run.json", "driver.json", "report.html", "receipts", "rejects", "packs", "tmp"}
"""What may lie in the private folder."""
PART = re.compile(r"part-\d{5,}-of-\d{5,}\.(parquet|arrow)")


@dataclass(frozen=True, slots=True)
class OutputFolder:
    """The places of one run's files. Picklable: workers get it, too."""

    root: Path
    shards: int = 0
    """Of the whole run; in the names of parts."""
    format: OutputFormat = OutputFormat.PARQUET

    @property
    def private(self) -> Path:
        """Everything but the parts."""
        return self.root / PRIVATE

    @property
    def record(self) -> Path:
        """The record of the run."""
        return self.private / "run.json"

    @property
    def report(self) -> Path:
        """The page about the run."""
        return self.private / "report.html"

    @property
    def driver(self) -> Path:
        """Who is working on this folder, while someone is."""
        return self.private / "driver.json"

    @property
    def temporary(self) -> Path:
        """Files of attempts that are not published; on the same file system as the parts."""
        return self.private / "tmp"

    def part(self, shard: int) -> Path:
        """The token rows of a shard."""
        return self.root / part_name(shard, self.shards, self.format)

    def receipt(self, shard: int) -> Path:
        """Stands there when the shard is committed."""
        return self.private / "receipts" / receipt_name(shard)

    def rejects(self, shard: int) -> Path:
        """The rejects of a shard; there only where it has some."""
        return self.private / "rejects" / rejects_name(shard)

    def packs(self, size: int) -> Path:
        """Which rows make up packed sequences of at most `size` ids; there after `--pack`."""
        return self.private / packs_name(size)

    def check(self) -> None:
        """Look whether the folder may be written to.

        Raises:
            JobError: it holds something that is not ours, or is no folder.
        """
        if not self.root.exists():
            return
        if not self.root.is_dir():
            raise JobError(f"The output {self.root} is not a folder. Name a new or empty folder.")
        strange = sorted({*self._strangers(), *self._links()})
        if strange:
            more = f" and {len(strange) - 3} more" if len(strange) > 3 else ""
            raise JobError(
                f"The output folder {self.root} is refused: it is not empty and holds what "
                f"promptmill did not write ({', '.join(strange[:3])}{more}). Nothing was touched. "
                "Name a new or empty folder."
            )

    def _links(self) -> Iterator[str]:
        """Links among what is ours: through one we would write, or clean up, somewhere else."""
        for folder in (self.root, self.private):
            for path in folder.iterdir() if folder.is_dir() else ():
                if path.is_symlink():
                    yield str(path.relative_to(self.root))

    def _strangers(self) -> Iterator[str]:
        started = self.record.exists()
        for path in self.root.iterdir():
            if path.name == PRIVATE and path.is_dir():
                names = (inner.name for inner in path.iterdir())
                yield from (f"{PRIVATE}/{name}" for name in names if name not in OURS)
            elif not (started and PART.fullmatch(path.name)):
                yield path.name

    def create(self) -> None:
        """Make the folders that a run writes to."""
        for folder in (self.receipt(0).parent, self.rejects(0).parent, self.temporary):
            folder.mkdir(parents=True, exist_ok=True)

    def read_record(self) -> RunRecord | None:
        """The record of the run; None where none was started.

        Raises:
            JobError: it is not readable.
        """
        try:
            return msgspec.json.decode(self.record.read_bytes(), type=RunRecord)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise JobError(
                f"{self.record} is damaged ({error}). Restore it, or name a new output folder."
            ) from error

    def write_record(self, record: RunRecord) -> None:
        """Replace the record as a whole."""
        data = msgspec.json.format(msgspec.json.encode(record), indent=2)
        self.replace(self.record, data)

    def replace(self, path: Path, data: bytes) -> None:
        """Write a small file so that readers see the old one or the new one, never a half."""
        temporary = self.temporary / f"{path.name}.new"
        self.temporary.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        temporary.replace(path)

    def receipts(self) -> Iterator[tuple[int, Receipt | None]]:
        """Shard numbers, ascending, and their receipts; None for one that is damaged."""
        for path in sorted(self.receipt(0).parent.glob("*.json"), key=lambda p: (len(p.name), p)):
            if path.stem.isdecimal():
                yield int(path.stem), _decode_receipt(path)

    def read_receipt(self, shard: int) -> Receipt | None:
        """The receipt of a shard; None while it is not committed, or if it is damaged."""
        try:
            return _decode_receipt(self.receipt(shard))
        except FileNotFoundError:
            return None

    def clean(self) -> None:
        """Remove the temporary files of attempts that are over."""
        shutil.rmtree(self.temporary, ignore_errors=True)


def _decode_receipt(path: Path) -> Receipt | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Receipt)
    except msgspec.MsgspecError:
        return None

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

from promptmill.pipeline.storage.place import Place, local, read_files, sizes
from promptmill.pipeline.storage.remote import RemotePath
from promptmill.pipeline.storage.scratch import remove_dead, scratch_folder
from promptmill.pipeline.write.names import (
    PRIVATE,
    new_attempt,
    packs_name,
    part_name,
    receipt_name,
    rejects_name,
)
from promptmill.pipeline.write.publish import publish
from promptmill.schemas.errors import JobError
from promptmill.schemas.options import OutputFormat
from promptmill.schemas.run import Receipt, RunRecord

OURS = {"run.json", "driver.json", "report.html", "receipts", "rejects", "packs", "tmp"}
"""What may lie in the private folder."""
PART = re.compile(r"part-\d{5,}-of-\d{5,}\.(parquet|arrow)")


@dataclass(frozen=True, slots=True)
class OutputFolder:
    """The places of one run's files. Picklable: workers get it, too."""

    root: Place
    shards: int = 0
    """Of the whole run; in the names of parts."""
    format: OutputFormat = OutputFormat.PARQUET

    @property
    def private(self) -> Place:
        """Everything but the parts."""
        return self.root / PRIVATE

    @property
    def record(self) -> Place:
        """The record of the run."""
        return self.private / "run.json"

    @property
    def report(self) -> Place:
        """The page about the run."""
        return self.private / "report.html"

    @property
    def driver(self) -> Place:
        """Who is working on this folder, while someone is."""
        return self.private / "driver.json"

    @property
    def temporary(self) -> Path:
        """Files of attempts that are not published.

        On the same file system as the parts; for an object store, on this process's own disk.
        """
        private = self.private
        return private / "tmp" if isinstance(private, Path) else scratch_folder()

    @property
    def seen(self) -> bool:
        """Whether this machine sees the folder that a run has created."""
        return self.temporary.is_dir() and (isinstance(self.root, Path) or self.root.exists())

    def part(self, shard: int) -> Place:
        """The token rows of a shard."""
        return self.root / part_name(shard, self.shards, self.format)

    def receipt(self, shard: int) -> Place:
        """Stands there when the shard is committed."""
        return self.private / "receipts" / receipt_name(shard)

    def rejects(self, shard: int) -> Place:
        """The rejects of a shard; there only where it has some."""
        return self.private / "rejects" / rejects_name(shard)

    def packs(self, size: int) -> Place:
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
            for path in folder.iterdir() if isinstance(folder, Path) and folder.is_dir() else ():
                if path.is_symlink():
                    yield str(path.relative_to(local(self.root)))

    def _strangers(self) -> Iterator[str]:
        started = self.record.exists()
        for path in self.root.iterdir():
            if path.name == PRIVATE and path.is_dir():
                names = (inner.name for inner in path.iterdir())
                yield from (f"{PRIVATE}/{name}" for name in names if name not in OURS)
            elif not (started and PART.fullmatch(path.name)):
                yield path.name

    def create(self) -> None:
        """Make the folders that a run writes to; object stores have none."""
        for folder in (self.receipt(0).parent, self.rejects(0).parent, self.temporary):
            if isinstance(folder, Path):
                folder.mkdir(parents=True, exist_ok=True)

    def read_record(self) -> RunRecord | None:
        """The record of the run; None where none was started.

        Raises:
            JobError: it is not readable.
        """
        try:
            return msgspec.json.decode(self.record.read_bytes(), type=RunRecord)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except msgspec.MsgspecError as error:
            raise JobError(
                f"{self.record} is damaged ({error}). Restore it, or name a new output folder."
            ) from error

    def write_record(self, record: RunRecord) -> None:
        """Replace the record as a whole."""
        data = msgspec.json.format(msgspec.json.encode(record), indent=2)
        self.replace(self.record, data)

    def replace(self, place: Place, data: bytes) -> None:
        """Write a small file so that readers see the old one or the new one, never a half."""
        if isinstance(place, RemotePath):
            place.replace_with(data)
            return
        self._aside(f"{place.name}.new", data).replace(local(place))

    def add(self, place: Place, data: bytes) -> bool:
        """Write a small file unless there is one; whether what stands there now is this one."""
        if isinstance(place, RemotePath):
            return place.create(data)
        return publish(self._aside(f"{place.name}.{new_attempt()}", data), place)

    def _aside(self, name: str, data: bytes) -> Path:
        self.temporary.mkdir(parents=True, exist_ok=True)
        path = self.temporary / name
        path.write_bytes(data)
        return path

    def receipts(self) -> Iterator[tuple[int, Receipt | None]]:
        """Shard numbers, ascending, and their receipts; None for one that is damaged.

        They are listed at once, and read when their turn comes.
        """
        folder = self.receipt(0).parent
        found = {name.removesuffix(".json") for name in sizes(folder) if name.endswith(".json")}
        shards = sorted(int(stem) for stem in found if stem.isdecimal())
        read = read_files(folder, [receipt_name(shard) for shard in shards])
        return ((shard, _decode(data)) for shard, (_, data) in zip(shards, read, strict=True))

    def read_receipt(self, shard: int) -> Receipt | None:
        """The receipt of a shard; None while it is not committed, or if it is damaged."""
        try:
            return _decode(self.receipt(shard).read_bytes())
        except FileNotFoundError:
            return None

    def clean(self) -> None:
        """Remove what attempts that are over have left behind."""
        if isinstance(self.root, RemotePath):
            self.root.abort_uploads()
            remove_dead()
            return
        shutil.rmtree(self.temporary, ignore_errors=True)


def no_run_in(folder: object) -> JobError:
    """The refusal of a folder that no run wrote to."""
    return JobError(f"{folder} holds no promptmill run. Name the folder that a run wrote to.")


def _decode(data: bytes) -> Receipt | None:
    try:
        return msgspec.json.decode(data, type=Receipt)
    except msgspec.MsgspecError:
        return None

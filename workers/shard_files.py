"""The files of one attempt at a shard.

They are written under temporary names that carry the attempt; then the part, the rejects and, last,
the receipt are published, each only if nothing stands there yet.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec

from promptmill.pipeline.read.files import HashedFile, blocks
from promptmill.pipeline.storage.place import Place
from promptmill.pipeline.write.names import temporary_name
from promptmill.pipeline.write.publish import publish
from promptmill.schemas.run import Receipt, WrittenFile
from promptmill.workers.output_folder import OutputFolder

HASH_BLOCK_BYTES = 1 << 20


class LeaseLost(Exception):
    """Someone else has this shard now, or the run stops: give up, publish nothing."""


@dataclass(frozen=True, slots=True)
class ShardFiles:
    """Where an attempt writes, and where that goes."""

    folder: OutputFolder
    shard: int
    attempt: str

    @property
    def part(self) -> Place:
        """The final place of the token rows."""
        return self.folder.part(self.shard)

    @property
    def rejects(self) -> Place:
        """The final place of the rejects."""
        return self.folder.rejects(self.shard)

    def temporary(self, final: Place) -> Path:
        """Where a file is written until it is whole."""
        return self.folder.temporary / temporary_name(final.name, self.attempt)

    def publish(self, final: Place, size: int, sha256: str) -> WrittenFile:
        """Give a file its name. What stands there without a receipt is of a dead attempt.

        Raises:
            LeaseLost: another attempt committed the shard meanwhile.
        """
        if final.exists() and _sha256(final) != sha256:
            if self.folder.read_receipt(self.shard) is not None:
                raise LeaseLost  # committed by another attempt while this one was cut off
            final.unlink()
        publish(self.temporary(final), final)
        return WrittenFile(final.name, size, sha256)

    def commit(self, receipt: Receipt) -> Receipt:
        """Publish the receipt; the one that stands, which may be that of another attempt."""
        if self.folder.add(self.folder.receipt(self.shard), msgspec.json.encode(receipt)):
            return receipt
        return self.folder.read_receipt(self.shard) or receipt


def _sha256(place: Place) -> str:
    with closing(HashedFile(place.open("rb"))) as file:
        for _ in blocks(file, HASH_BLOCK_BYTES):
            pass
        return file.sha256()

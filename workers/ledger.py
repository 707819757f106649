"""The receipts of a run, added up; a receipt without its part does not count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from promptmill.pipeline.storage.place import sizes
from promptmill.schemas.request import EMPTY_MASK
from promptmill.schemas.run import Receipt, RejectExample, RunTotals, Totals, WrittenFile
from promptmill.workers.output_folder import OutputFolder


@dataclass(slots=True)
class Ledger:
    """What is committed."""

    committed: list[int] = field(default_factory=list)
    """Shard numbers, ascending."""
    broken: list[int] = field(default_factory=list)
    """Shards whose receipt is damaged, or stands without its files."""
    totals: Totals = field(default_factory=Totals)
    examples: dict[str, RejectExample] = field(default_factory=dict)
    """The first reject of every code, in input order."""
    unmarked: int = 0
    """Rows with a mask that marks no id."""

    def add(self, receipt: Receipt) -> None:
        """Count a shard."""
        self.committed.append(receipt.shard)
        self.totals += receipt.totals
        self.unmarked += receipt.figures.warnings.get(EMPTY_MASK, 0)
        for code, example in receipt.examples.items():
            self.examples.setdefault(code, example)

    def run_totals(self, *, rows_resumed: int, duplicate_ids: int) -> RunTotals:
        """The counts as `run.json` shows them."""
        totals = self.totals
        return RunTotals(
            rows_in=totals.rows_in,
            rows_ok=totals.rows_ok,
            rows_rejected=totals.rows_rejected,
            rejects=totals.rejects,
            rows_truncated=totals.rows_truncated,
            rows_resumed=rows_resumed,
            double_bos_rows=totals.double_bos_rows,
            duplicate_ids=duplicate_ids,
            blank_lines=totals.blank_lines,
            tokens=totals.tokens,
            media=totals.media,
            bytes_read=totals.bytes_read,
            bytes_written=totals.bytes_written,
            seconds=totals.seconds,
            cpu_seconds=totals.cpu_seconds,
        )


def read_ledger(folder: OutputFolder, also: Callable[[Receipt], None] = lambda _: None) -> Ledger:
    """Add up what is committed, where receipt and files are still whole.

    Args:
        folder: of the run.
        also: is given every receipt that counts.
    """
    ledger = Ledger()
    receipts = folder.receipts()  # listed before the files, which are written before them
    parts, rejects = sizes(folder.root), sizes(folder.rejects(0).parent)
    for shard, receipt in receipts:
        if receipt and _stands(receipt.part, parts) and _stands(receipt.rejects, rejects):
            ledger.add(receipt)
            also(receipt)
        else:
            ledger.broken.append(shard)
    return ledger


def sound_ledger(folder: OutputFolder) -> Ledger:
    """The same; receipts that do not count are removed, so that their shards are done again."""
    ledger = read_ledger(folder)
    for shard in ledger.broken:
        folder.receipt(shard).unlink(missing_ok=True)
    return ledger


def _stands(file: WrittenFile | None, found: Mapping[str, int]) -> bool:
    return file is None or found.get(file.name) == file.size

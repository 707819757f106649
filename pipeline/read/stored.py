"""Token rows of a finished part, by their positions in it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from promptmill.pipeline.read.arrow_source import arrow_source
from promptmill.pipeline.storage.place import Place
from promptmill.schemas.columns import with_vllm_names
from promptmill.schemas.errors import JobError


class StoredPart:
    """One part, Parquet or Arrow. Holds one row group at a time.

    Raises:
        JobError: it cannot be read.
    """

    def __init__(self, path: Place) -> None:
        self.path = path
        self._file: pq.ParquetFile | pa.RecordBatchFileReader
        with self._readable():
            if path.suffix == ".arrow":
                file = self._file = pa.ipc.open_file(arrow_source(path))
                self._sizes = [file.get_batch(n).num_rows for n in range(file.num_record_batches)]
            else:
                self._file = pq.ParquetFile(arrow_source(path))
                facts = self._file.metadata
                self._sizes = [facts.row_group(n).num_rows for n in range(facts.num_row_groups)]

    @property
    def rows(self) -> int:
        """How many it has."""
        return sum(self._sizes)

    def read(self, positions: Sequence[int]) -> Iterator[dict[str, object]]:
        """The rows at some positions (from 0, rising), columns named as vLLM names them."""
        for group, start, stop in self._groups():
            inside = positions[bisect_left(positions, start) : bisect_left(positions, stop)]
            if inside:
                table = self._read(group)
                for position in inside:
                    yield with_vllm_names(table.slice(position - start, 1).to_pylist()[0])

    def find(self, custom_id: str) -> int | None:
        """The position of the prompt of this id."""
        for group, start, _ in self._groups():
            names: list[str] = self._read(group, ["custom_id"]).column(0).to_pylist()
            if custom_id in names:
                return start + names.index(custom_id)
        return None

    def _groups(self) -> Iterator[tuple[int, int, int]]:
        """Number, first position and end of every row group."""
        start = 0
        for group, size in enumerate(self._sizes):
            yield group, start, start + size
            start += size

    def _read(self, group: int, columns: list[str] | None = None) -> pa.Table:
        with self._readable():
            if isinstance(self._file, pq.ParquetFile):
                return self._file.read_row_group(group, columns=columns)
            table = pa.Table.from_batches([self._file.get_batch(group)])
            return table if columns is None else table.select(columns)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise JobError(f"The part {self.path} cannot be read: {error}") from error

"""What an engine is: text in, flat token ids out, for a whole batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise, starmap
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.options import EngineName
from promptmill.schemas.request import Ids, Offsets

Splits: TypeAlias = npt.NDArray[np.int64]
"""Row boundaries, shape (rows + 1,)."""


class RowTokens(NamedTuple):
    """The tokens of one text."""

    ids: Ids
    offsets: Offsets | None


@dataclass(frozen=True, slots=True)
class FlatTokens:
    """The tokens of a batch, rows one after the other."""

    ids: Ids
    """Shape (n,)."""
    splits: Splits
    """Row i is `ids[splits[i]:splits[i + 1]]`."""
    offsets: Offsets | None = None
    """Shape (n, 2), code points into each row's own text; None where not asked for."""

    def __len__(self) -> int:
        return len(self.splits) - 1

    def row(self, index: int) -> RowTokens:
        """Views of one row's ids and offsets."""
        return self._part(int(self.splits[index]), int(self.splits[index + 1]))

    def rows(self) -> Iterator[RowTokens]:
        """`row` of every row, in order."""
        return starmap(self._part, pairwise(self.splits.tolist()))

    def _part(self, start: int, stop: int) -> RowTokens:
        offsets = None if self.offsets is None else self.offsets[start:stop]
        return RowTokens(self.ids[start:stop], offsets)


TokensAndErrors: TypeAlias = tuple[FlatTokens, dict[int, RowError]]
"""The tokens of a batch, and what went wrong with which of its texts."""


@dataclass(slots=True)
class EngineCounts:
    """What an engine has done so far, for the receipts."""

    rows_checked: int = 0
    """Compared with the reference, beyond those at loading."""
    rows_redone: int = 0
    """Taken from the reference because the engine could not be exact."""
    cache_asked: int = 0
    """Bytes of text that a segment cache was asked for."""
    cache_hit: int = 0
    """Bytes of those that it had."""


class EngineMismatch(Exception):
    """A fast way differed from the reference: nothing it made can be trusted.

    The caller redoes its work with `EngineName.TOKENIZERS`, which knows no fast ways.
    """

    def __init__(self, fast: str, reference: str = "tokenizers") -> None:
        super().__init__(fast, reference)
        self.fast, self.reference = fast, reference

    def __str__(self) -> str:
        return (
            f"{self.fast} differed from {self.reference} on a row of this run; from here on "
            "everything is done with --engine tokenizers, which is many times slower."
        )


class Engine(Protocol):
    """Turns texts into ids as `tokenizers` does with `add_special_tokens=False`.

    Control spellings in the text are recognised; nothing is truncated, padded or added. The
    result of a text never depends on the other texts of its batch. Threads may share an engine.
    """

    @property
    def name(self) -> EngineName:
        """What does the work."""

    @property
    def fallback_reason(self) -> str | None:
        """Why this is not the engine that was asked for, to be said once; None when it is."""

    @property
    def counts(self) -> EngineCounts:
        """What it has done so far; threads that share it may lose a count."""

    def encode(self, texts: Sequence[str], *, offsets: bool) -> FlatTokens:
        """Encode a batch.

        Raises:
            EngineMismatch: the engine was found to differ from the reference.
            RowError: one text cannot be encoded (a lone surrogate, or the tokenizer failed). The
                whole batch is lost then; `encode_each` finds the row and keeps the others.
        """


def encode_each(engine: Engine, texts: Sequence[str], *, offsets: bool) -> TokensAndErrors:
    """Encode a batch in which texts may fail.

    Returns:
        The tokens, with an empty row for each text that failed, and the errors by row.
    """
    return keep_good_rows(
        lambda rows: engine.encode([texts[row] for row in rows], offsets=offsets),
        len(texts),
        offsets=offsets,
    )


def keep_good_rows(
    encode: Callable[[Sequence[int]], FlatTokens], count: int, *, offsets: bool
) -> TokensAndErrors:
    """Encode all rows at once or, where a row fails, one by one.

    Args:
        encode: encodes the rows of these numbers; raises RowError where one fails.
        count: how many rows there are.
        offsets: whether `encode` gives offsets.

    Returns:
        As `encode_each`.
    """
    try:
        return encode(range(count)), {}
    except RowError:
        pass
    spans = np.empty((0, 2), np.int32) if offsets else None
    nothing = FlatTokens(np.empty(0, np.int32), np.zeros(2, np.int64), spans)
    errors: dict[int, RowError] = {}
    rows = []
    for row in range(count):
        try:
            rows.append(encode([row]))
        except RowError as error:
            errors[row] = error
            rows.append(nothing)
    return concatenate(rows), errors


def concatenate(batches: Sequence[FlatTokens]) -> FlatTokens:
    """One batch of all rows, in order. Offsets are kept where every batch has them."""
    sizes = [np.diff(batch.splits) for batch in batches]
    splits = np.concatenate([np.zeros(1, np.int64), *sizes]).cumsum()
    offsets = [batch.offsets for batch in batches if batch.offsets is not None]
    return FlatTokens(
        np.concatenate([np.empty(0, np.int32), *(batch.ids for batch in batches)]),
        splits,
        np.concatenate([np.empty((0, 2), np.int32), *offsets])
        if len(offsets) == len(batches)
        else None,
    )


@contextmanager
def row_errors(texts: Sequence[str]) -> Iterator[None]:
    """Turn whatever a native tokenizer raises into a RowError that holds no row content."""
    try:
        yield
    except (RowError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of native code is not an Exception
        # `from None`, because the library's own message may quote the text.
        if any(not encodable(text) for text in texts):
            raise RowError(
                ErrorCode.LONE_SURROGATE,
                "The text holds a lone surrogate, which no tokenizer accepts. Replace it, for "
                "example by U+FFFD.",
                stage=Stage.TOKENIZE,
            ) from None
        raise RowError(
            ErrorCode.TOKENIZER_ERROR,
            f"The tokenizer failed on this text with {type(error).__name__}. Change the row.",
            stage=Stage.TOKENIZE,
        ) from None


def encodable(text: str) -> bool:
    """Whether the text holds no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

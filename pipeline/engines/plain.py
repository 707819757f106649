"""Tokenization where the caller says which ranges of a text are control tokens.

Each special range becomes the id of its spelling; everything else is encoded without the added
vocabulary, so that a control spelling typed by a user stays text. This is how DeepSeek prompts
are encoded, and prompts of any model whose control tokens in content are escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from promptmill.pipeline.engines.base import (
    Engine,
    FlatTokens,
    Splits,
    TokensAndErrors,
    keep_good_rows,
)
from promptmill.pipeline.engines.load import choose_engine
from promptmill.pipeline.engines.pool import backend_of, reference_pool, tokenizer_pool
from promptmill.pipeline.engines.standins import GROUPS, StandIns, with_stand_ins
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.options import EngineName
from promptmill.schemas.request import CharSpan, Offsets


@dataclass(frozen=True, slots=True)
class _Collapsed:
    """A text with a stand-in for each special range."""

    text: str
    ids: list[int]
    """What the stand-ins stand for, in order."""
    places: npt.NDArray[np.int64]
    """-1, and where the stand-ins are, in code points of `text`."""
    grown: npt.NDArray[np.int64]
    """How much longer the real text is behind each of these places."""


class PlainRanges:
    """Encodes texts whose control tokens are known by their ranges.

    If the ranges are exactly the spellings that the model's tokenizer would find, the result is
    what it would give. Nothing is loaded before the first text.

    Args:
        bundle: the model.
        choice: the engine to use, as for `load_engine`.

    Raises:
        JobError: the model's tokenizer is no serialisable backend.
    """

    def __init__(self, bundle: ModelBundle, choice: EngineName = EngineName.AUTO) -> None:
        self._backend = backend_of(bundle)
        self._reference = reference_pool(bundle)
        self._choice = choice
        # One for every text that holds no noncharacter, and one for the last that did.
        self._variant = lru_cache(maxsize=2)(self._make_variant)

    def encode(
        self, text: str, special_ranges: Sequence[CharSpan], *, offsets: bool = True
    ) -> FlatTokens:
        """Encode one text; as `encode_batch`."""
        return self.encode_batch([text], [special_ranges], offsets=offsets)

    def encode_batch(
        self, texts: Sequence[str], ranges: Sequence[Sequence[CharSpan]], *, offsets: bool
    ) -> FlatTokens:
        """Encode a batch.

        Args:
            texts: rendered prompts.
            ranges: for each text ascending, disjoint ranges of code points; each holds the
                spelling of one control token.
            offsets: whether offsets are wanted; they point into `texts`.

        Raises:
            RowError: a range does not hold the spelling of an added token, or a text cannot be
                encoded. The whole batch is lost then, as with `Engine.encode`.
        """
        stand_ins, engine = self._variant(_free_group(texts))
        rows = [_collapse(*row, stand_ins) for row in zip(texts, ranges, strict=True)]
        tokens = engine.encode([row.text for row in rows], offsets=offsets)
        wanted = [id for row in rows for id in row.ids]
        found = tokens.ids >= stand_ins.first_id
        if np.count_nonzero(found) != len(wanted):
            raise RowError(
                ErrorCode.TOKENIZER_ERROR,
                "The tokenizer did not keep the control tokens of the prompt apart from its text.",
                stage=Stage.TOKENIZE,
            )
        ids = tokens.ids.copy()
        ids[found] = wanted
        spans = tokens.offsets
        if spans is not None and rows:
            spans = _expanded(spans, tokens.splits, rows)
        return FlatTokens(ids, tokens.splits, spans)

    def encode_each(
        self, texts: Sequence[str], ranges: Sequence[Sequence[CharSpan]], *, offsets: bool
    ) -> TokensAndErrors:
        """Encode a batch in which texts may fail; as `base.encode_each`."""

        def encode(rows: Sequence[int]) -> FlatTokens:
            chosen = [texts[row] for row in rows], [ranges[row] for row in rows]
            return self.encode_batch(*chosen, offsets=offsets)

        return keep_good_rows(encode, len(texts), offsets=offsets)

    def _make_variant(self, group: int) -> tuple[StandIns, Engine]:
        with self._reference.borrow() as tokenizer:
            stand_ins = with_stand_ins(self._backend, tokenizer.normalizer, GROUPS[group])
        pool = tokenizer_pool(stand_ins.backend)
        return stand_ins, choose_engine(stand_ins.backend, pool, self._choice)


def _collapse(text: str, ranges: Sequence[CharSpan], stand_ins: StandIns) -> _Collapsed:
    edges = [0, *(edge for span in ranges for edge in span), len(text)]
    if any(left > right for left, right in pairwise(edges)):
        raise ValueError("special ranges must be ascending, disjoint and inside the text")
    pieces, ids = [text[: edges[1]]], []
    for (start, stop), following in zip(ranges, edges[3::2], strict=True):
        spelling = text[start:stop]
        if spelling not in stand_ins.ids:
            raise _no_token(start, stop)
        ids.append(stand_ins.ids[spelling])
        pieces += stand_ins.characters[spelling], text[stop:following]
    grown = np.cumsum([0, *(stop - start - 1 for start, stop in ranges)])
    places = np.asarray([-1, *(start for start, _ in ranges)])
    places[1:] -= grown[:-1]
    return _Collapsed("".join(pieces), ids, places, grown)


def _expanded(spans: Offsets, splits: Splits, rows: Sequence[_Collapsed]) -> Offsets:
    """Offsets into the collapsed texts as offsets into the real ones."""
    # The rows are laid one behind the other, a place apart, to look all places up at once.
    bases = np.cumsum([0, *(len(row.text) + 1 for row in rows)])[:-1]
    places = [row.places + base for row, base in zip(rows, bases, strict=True)]
    edges = spans + np.repeat(bases, np.diff(splits))[:, None]
    # A place counts once it lies before a start, or inside or before an end.
    passed = np.searchsorted(np.concatenate(places), edges) - 1
    grown: Offsets = np.concatenate([row.grown for row in rows])[passed].astype(np.int32)
    return spans + grown


def _no_token(start: int, stop: int) -> RowError:
    return RowError(
        ErrorCode.TOKENIZER_ERROR,
        f"Characters {start} to {stop} of the prompt should be a control token, but the tokenizer "
        "has none of that spelling. Use the tokenizer that belongs to the prompt's format.",
        stage=Stage.TOKENIZE,
    )


def _free_group(texts: Sequence[str]) -> int:
    """The first set of stand-in characters that none of the texts has."""
    for index, group in enumerate(GROUPS):
        if not any(character in text for text in texts for character in group):
            return index
    raise RowError(
        ErrorCode.TOKENIZER_ERROR,
        "The prompt holds noncharacters of every kind (U+FDD0 and so on), so none is left to mark "
        "its control tokens. Remove them.",
        stage=Stage.TOKENIZE,
    )

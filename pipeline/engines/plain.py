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

from promptmill.pipeline.engines.base import Engine, FlatTokens
from promptmill.pipeline.engines.load import choose_engine
from promptmill.pipeline.engines.pool import backend_of, reference_pool, tokenizer_pool
from promptmill.pipeline.engines.standins import GROUPS, StandIns, with_stand_ins
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.options import EngineName
from promptmill.schemas.request import CharSpan


@dataclass(frozen=True, slots=True)
class _Collapsed:
    """A text with a stand-in for each special range."""

    text: str
    ids: npt.NDArray[np.int32]
    """What the stand-ins stand for, in order."""
    places: npt.NDArray[np.int64]
    """Where they are, in code points of `text`."""
    grown: npt.NDArray[np.int64]
    """Shape (ranges + 1,): how much longer the real text is before the i-th range."""


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
        """Encode one text.

        Args:
            text: the rendered prompt.
            special_ranges: ascending, disjoint ranges of code points; each holds one spelling.
            offsets: whether offsets are wanted; they point into `text`.

        Raises:
            RowError: a range does not hold the spelling of an added token, or the text cannot be
                encoded.
        """
        stand_ins, engine = self._variant(_free_group(text))
        collapsed = _collapse(text, special_ranges, stand_ins)
        tokens = engine.encode([collapsed.text], offsets=offsets)
        found = tokens.ids >= stand_ins.first_id
        if np.count_nonzero(found) != len(collapsed.ids):
            raise RowError(
                ErrorCode.TOKENIZER_ERROR,
                f"The tokenizer did not keep the {len(collapsed.ids)} control tokens of the prompt "
                "apart from its text.",
                stage=Stage.TOKENIZE,
            )
        ids = tokens.ids.copy()
        ids[found] = collapsed.ids
        if tokens.offsets is None:
            return FlatTokens(ids, tokens.splits)
        # A place counts once it lies before a start, or inside or before an end.
        passed = np.searchsorted(collapsed.places, tokens.offsets)
        shifted = tokens.offsets + collapsed.grown[passed].astype(np.int32)
        return FlatTokens(ids, tokens.splits, shifted)

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
    places = np.asarray([start for start, _ in ranges], np.int64) - grown[:-1]
    return _Collapsed("".join(pieces), np.asarray(ids, np.int32), places, grown)


def _no_token(start: int, stop: int) -> RowError:
    return RowError(
        ErrorCode.TOKENIZER_ERROR,
        f"Characters {start} to {stop} of the prompt should be a control token, but the tokenizer "
        "has none of that spelling. Use the tokenizer that belongs to the prompt's format.",
        stage=Stage.TOKENIZE,
    )


def _free_group(text: str) -> int:
    """The first set of stand-in characters that a text has none of."""
    for index, group in enumerate(GROUPS):
        if not any(character in text for character in group):
            return index
    raise RowError(
        ErrorCode.TOKENIZER_ERROR,
        "The prompt holds noncharacters of every kind (U+FDD0 and so on), so none is left to mark "
        "its control tokens. Remove them.",
        stage=Stage.TOKENIZE,
    )

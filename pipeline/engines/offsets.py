"""Character offsets from ids alone.

A token's span runs from the character that holds its first byte to the one that holds its last
(tokens that share a character overlap). So two facts of an id decide it: how many characters
begin in the token, and whether its first byte continues a character that began before. The ends
of a row are the running sum of the first; the starts follow. A row for which that cannot be right
(its sum is not the text's length, or its text was normalized) is reported, not guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from promptmill.pipeline.engines.base import FlatTokens, Splits
from promptmill.pipeline.engines.spec import TokenizerSpec
from promptmill.pipeline.engines.traits import (
    WORD_MARK,
    Family,
    Prefix,
    Traits,
    byte_alphabet,
    byte_pieces,
)
from promptmill.pipeline.engines.unicode import is_nfc
from promptmill.schemas.request import Offsets

Bools: TypeAlias = npt.NDArray[np.bool_]
Counts: TypeAlias = npt.NDArray[np.int64]


class OffsetTables:
    """The two facts of every id of one tokenizer.

    Args:
        spec: the tokenizer.
        traits: what `proven_traits` says of it.
    """

    def __init__(self, spec: TokenizerSpec, traits: Traits) -> None:
        self._nfc = traits.nfc
        self._prefix = traits.prefix
        vocab = spec.model.ids()
        ids = np.fromiter(vocab.values(), np.int64, len(vocab))
        size = 1 + max((*vocab.values(), *(token.id for token in spec.added_tokens)))
        begun, continues = np.zeros(size, np.int64), np.zeros(size, np.bool_)
        facts_of = _byte_level_facts if traits.family is Family.BYTE_LEVEL else _piece_facts
        begun[ids], continues[ids] = facts_of(list(vocab))
        self._added = np.zeros(size, np.bool_)
        for token in spec.added_tokens:
            begun[token.id], continues[token.id] = len(token.content), False
            self._added[token.id] = True
        # Both in one number of the smallest type: looking ids up is what costs.
        facts = 2 * begun + continues
        self._facts = facts.astype(np.min_scalar_type(int(facts.max())))

    def spans(self, texts: Sequence[str], tokens: FlatTokens) -> tuple[Offsets, Bools]:
        """The offsets of a batch.

        Returns:
            Offsets, shape (n, 2); and for each row whether they are right.
        """
        facts = self._facts.take(tokens.ids)
        begun = facts >> 1
        lengths, reach = begun.astype(np.int32), facts - begun
        marks = self._marks(texts, tokens, lengths)
        lengths[marks] -= 1
        sums = np.zeros(len(tokens), np.int64)
        filled = np.flatnonzero(np.diff(tokens.splits))
        starts = tokens.splits[filled]
        if len(filled):
            sums[filled] = np.add.reduceat(lengths, starts, dtype=np.int64)
            # One running sum over the batch, set back to nothing where a row starts.
            lengths[starts[1:]] -= sums[filled[:-1]].astype(np.int32)
        offsets = np.empty((len(lengths), 2), np.int32)
        ends = lengths.cumsum(dtype=np.int32)
        offsets[:, 1] = ends
        offsets[:, 0] = ends - reach
        offsets[marks, 0] += 1
        # A mark alone gets the character that it was put in front of.
        offsets[marks, 1] = np.maximum(offsets[marks, 1], offsets[marks, 0] + 1)
        right = sums == np.fromiter(map(len, texts), np.int64, len(texts))
        if self._nfc:
            right &= np.fromiter(map(is_nfc, texts), np.bool_, len(texts))
        return offsets, right

    def _marks(
        self, texts: Sequence[str], tokens: FlatTokens, lengths: npt.NDArray[np.int32]
    ) -> Counts:
        """Indices of the tokens that begin with a word mark which the text does not have."""
        if self._prefix is Prefix.NONE:
            return np.empty(0, np.int64)
        added = self._added[tokens.ids]
        opens = np.zeros(len(added), np.bool_)
        if self._prefix is not Prefix.UNMARKED_START:
            opens[1:] = added[:-1]
        opens[tokens.splits[:-1][np.diff(tokens.splits) > 0]] = True
        firsts = np.flatnonzero(opens & ~added)
        if self._prefix is Prefix.EVERY_SEGMENT:
            return firsts
        return _unmarked(texts, tokens.splits, firsts, np.cumsum(lengths) - lengths)


def _unmarked(texts: Sequence[str], splits: Splits, firsts: Counts, begins: Counts) -> Counts:
    """Those tokens at whose place the text has neither a space nor a word mark.

    Args:
        texts: the rows.
        splits: their boundaries.
        firsts: candidates, ascending; each mark found moves the later ones of its row.
        begins: where each token would begin, in characters of the batch, without any mark.
    """
    marks = []
    current, moved = -1, 0
    rows = np.searchsorted(splits, firsts, side="right") - 1
    for first, row in zip(firsts.tolist(), rows.tolist(), strict=True):
        if row != current:
            current, moved = row, int(begins[splits[row]])
        place = int(begins[first]) - moved
        if texts[row][place : place + 1] not in ("", " ", WORD_MARK):
            marks.append(first)
            moved += 1
    return np.asarray(marks, np.int64)


def _byte_level_facts(tokens: list[str]) -> tuple[Counts, Bools]:
    alphabet = byte_alphabet()
    # One more entry, for characters outside the alphabet: no text makes a token of those.
    begins, continues = np.zeros(0x145, np.bool_), np.zeros(0x145, np.bool_)
    for character, byte in alphabet.items():
        begins[ord(character)], continues[ord(character)] = _begins(byte), not _begins(byte)
    text = "".join(tokens) + "\u0144"
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32).clip(max=0x144)
    ends = np.cumsum(np.fromiter(map(len, tokens), np.int64, len(tokens)))
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
    running = np.concatenate((np.zeros(1, np.int64), np.cumsum(begins[codes])))
    return running[ends] - running[starts], continues[codes[starts]]


def _piece_facts(tokens: list[str]) -> tuple[Counts, Bools]:
    begun = np.fromiter(map(len, tokens), np.int64, len(tokens))
    continues = np.zeros(len(tokens), np.bool_)
    pieces = byte_pieces()
    for index, token in enumerate(tokens):
        if (byte := pieces.get(token)) is not None:
            begun[index], continues[index] = _begins(byte), not _begins(byte)
    return begun, continues


def _begins(byte: int) -> bool:
    """Whether a byte of UTF-8 is the first of its character."""
    return byte & 0xC0 != 0x80

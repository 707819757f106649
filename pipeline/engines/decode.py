"""Ids back to text, as the model's tokenizer decodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from promptmill.pipeline.engines.pool import backend_of, reference_pool
from promptmill.pipeline.engines.traits import byte_alphabet, byte_pieces
from promptmill.schemas.bundle import ModelBundle

CLEANED: Final = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)
"""What Hugging Face's clean-up of tokenization spaces replaces, in this order."""


class Decoder:
    """Decodes ids as Hugging Face's `tokenizer.decode` does.

    Raises:
        JobError: the model's tokenizer is no serialisable backend.
    """

    def __init__(self, bundle: ModelBundle) -> None:
        self._pool = reference_pool(bundle)
        with self._pool.borrow() as tokenizer:
            # The clean-up is for WordPiece; for BPE Hugging Face ignores the setting.
            is_bpe = type(tokenizer.model).__name__ == "BPE"
        self._cleans_up = bundle.facts.clean_up_tokenization_spaces and not is_bpe
        self._bytes = _byte_spellings(backend_of(bundle))

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """The text of the ids; ids that the vocabulary lacks give nothing."""
        with self._pool.borrow() as tokenizer:
            text = tokenizer.decode([int(i) for i in ids], skip_special_tokens=skip_special_tokens)
        if self._cleans_up:
            for old, new in CLEANED:
                text = text.replace(old, new)
        return text

    def pieces(self, ids: Iterable[int]) -> list[bytes | None]:
        """What each id is of a text's bytes, right where an id is a part of a character.

        None for ids that the vocabulary lacks.
        """
        with self._pool.borrow() as tokenizer:
            spellings = [tokenizer.id_to_token(i) if 0 <= i < 1 << 32 else None for i in ids]
        return [None if s is None else self._piece(s) for s in spellings]

    def _piece(self, spelling: str) -> bytes:
        if spelling in self._bytes:
            return bytes((self._bytes[spelling],))
        if all(character in self._bytes for character in spelling):
            return bytes(self._bytes[character] for character in spelling)
        return spelling.encode()


class _Backend(msgspec.Struct):
    decoder: msgspec.Raw = msgspec.Raw(b"null")


def _byte_spellings(backend: str) -> dict[str, int]:
    """How a vocabulary spells single bytes: as characters, as pieces, or not at all."""
    decoder = bytes(msgspec.json.decode(backend, type=_Backend).decoder)
    if b'"ByteLevel"' in decoder:
        return byte_alphabet()
    return byte_pieces() if b'"ByteFallback"' in decoder else {}

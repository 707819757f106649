"""Ids back to text, as the model's tokenizer decodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from promptmill.pipeline.engines.pool import reference_pool
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

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """The text of the ids; ids that the vocabulary lacks give nothing."""
        with self._pool.borrow() as tokenizer:
            text = tokenizer.decode([int(i) for i in ids], skip_special_tokens=skip_special_tokens)
        if self._cleans_up:
            for old, new in CLEANED:
                text = text.replace(old, new)
        return text

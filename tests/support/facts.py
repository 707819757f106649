"""Facts of tokenizers that tests make up; a test names those it depends on."""

from __future__ import annotations

from typing import Any, Final

from promptmill.schemas.bundle import TokenizerFacts
from promptmill.schemas.options import Side

_PLAIN: Final[dict[str, Any]] = {
    "max_chars_per_token": 16,
    "max_token_id": 99,
    "vocab_size": 100,
    "length": 100,
    "truncation_side": Side.LEFT,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
    "all_special_ids": (),
    "all_special_tokens": (),
    "is_fast": True,
    "tokenizer_class": "PreTrainedTokenizerFast",
}


def tokenizer_facts(**named: object) -> TokenizerFacts:
    """Those of a small fast tokenizer without special tokens, but for what is named."""
    return TokenizerFacts(**(_PLAIN | named))

"""Mistral's own tokenizers (tekken and SentencePiece files), through mistral-common."""

from __future__ import annotations

import functools
import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

from promptmill.pipeline.engines.base import FlatTokens, row_errors
from promptmill.pipeline.engines.special import AddedIds
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import JobError
from promptmill.schemas.options import EngineName

logging.getLogger("mistral_common").setLevel(logging.ERROR)


def load_mistral(bundle: ModelBundle) -> MistralTokenizer:
    """The tokenizer in a bundle's files; one load for each process and bundle.

    Raises:
        JobError: the bundle holds no single tekken.json or SentencePiece file.
    """
    if len(bundle.files) != 1:
        raise JobError(
            f"{bundle.name}: tokenizer mode mistral needs one tekken.json or tokenizer.model.v* "
            f"file, found {sorted(bundle.files) or 'none'}."
        )
    name, content = next(iter(bundle.files.items()))
    return _load(name, content)


@functools.lru_cache(maxsize=4)
def _load(name: str, content: bytes) -> MistralTokenizer:
    # mistral-common tells the kinds of tokenizer apart by the names of real files.
    with tempfile.TemporaryDirectory(prefix="promptmill-") as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        return MistralTokenizer.from_file(path)


def mistral_added_ids(tokenizer: MistralTokenizer) -> AddedIds:
    """BOS in front of a prompt, nothing behind it."""
    bos = tokenizer.instruct_tokenizer.tokenizer.bos_id
    return AddedIds(np.array([bos], np.int32), np.empty(0, np.int32))


class MistralEngine:
    """Plain text to ids. Control spellings in the text stay text; there are no offsets."""

    name = EngineName.MISTRAL_COMMON
    fallback_reason = None

    def __init__(self, tokenizer: MistralTokenizer) -> None:
        self._tokenizer = tokenizer.instruct_tokenizer.tokenizer

    def encode(self, texts: Sequence[str], *, offsets: bool) -> FlatTokens:
        """Ids of a batch; `offsets` cannot be had and are left out (RULES 3)."""
        with row_errors(texts):
            rows = [self._tokenizer.encode(text, bos=False, eos=False) for text in texts]
        splits = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        ids = np.fromiter((i for row in rows for i in row), np.int32, int(splits[-1]))
        return FlatTokens(ids, splits)


class MistralDecoder:
    """Ids to text, special tokens spelled out."""

    def __init__(self, tokenizer: MistralTokenizer) -> None:
        self._tokenizer = tokenizer

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids."""
        return self._tokenizer.decode(list(ids), special_token_policy=SpecialTokenPolicy.KEEP)

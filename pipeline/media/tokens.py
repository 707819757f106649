"""Ids of the tokens that families name."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from promptmill.pipeline.media.base import TextCodec
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import JobError
from promptmill.schemas.request import Ids


def find_id(codec: TextCodec, token: str) -> int | None:
    """The id of a token; None where the tokenizer does not have it as one id."""
    ids, _ = codec.encode(token)
    return int(ids[0]) if len(ids) == 1 else None


def need_id(codec: TextCodec, token: str) -> int:
    """The id of a token.

    Raises:
        JobError: the tokenizer does not have it.
    """
    found = find_id(codec, token)
    if found is None:
        raise JobError(
            f"The tokenizer has no token {token}, which the model's media need. Complete the "
            "model's tokenizer files, or give --limit-mm-per-prompt with 0 for every modality "
            "if no row has media."
        )
    return found


def special_token(bundle: ModelBundle, name: str, default: str) -> str:
    """The spelling of a special token by its name in tokenizer_config.json."""
    value = bundle.special_tokens_map.get(name)
    return value if isinstance(value, str) else default


def encoder(codec: TextCodec) -> Callable[[str], Ids]:
    """Text to ids, remembering the last few hundred texts: images of one layout share one."""

    @lru_cache(maxsize=256)
    def encode(text: str) -> Ids:
        return codec.encode(text)[0]

    return encode


def repeated(token_id: int, count: int) -> Ids:
    """`count` times the same id."""
    return np.full(count, token_id, np.int32)

"""Tokenizers that threads borrow, so that none waits for another's tokenization."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Generic, TypeVar

from tokenizers import Tokenizer

from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import JobError

T = TypeVar("T")


class Pool(Generic[T]):
    """Copies of one thing, lent to one thread at a time; grows when all are out."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._idle = deque([make()])  # its append and pop are atomic: no lock of ours

    @contextmanager
    def borrow(self) -> Iterator[T]:
        """A copy that nobody else uses until the block ends."""
        try:
            copy = self._idle.pop()
        except IndexError:
            copy = self._make()
        try:
            yield copy
        finally:
            self._idle.append(copy)

    def __len__(self) -> int:
        return len(self._idle)


def backend_of(bundle: ModelBundle) -> str:
    """The JSON of the model's own tokenizer.

    Raises:
        JobError: the model's tokenizer is no serialisable backend.
    """
    if bundle.backend is None:
        raise JobError(
            f"{bundle.name}: the tokenizer of mode {bundle.tokenizer_mode!r} is not a Hugging Face "
            "fast tokenizer, so its text cannot be tokenized here."
        )
    return bundle.backend


def reference_pool(bundle: ModelBundle) -> Pool[Tokenizer]:
    """The process's copies of the model's own tokenizer.

    Engines, special ids and the decoder share it: a tokenizer takes 100 to 350 MB.

    Raises:
        JobError: as `backend_of`.
    """
    return _shared_pool(backend_of(bundle), bundle.facts.split_special_tokens)


def tokenizer_pool(backend: str, split_special_tokens: bool = False) -> Pool[Tokenizer]:
    """A pool of tokenizers made from JSON, truncation and padding neutralised.

    Args:
        backend: the JSON.
        split_special_tokens: encode special spellings as plain text, which the JSON cannot say.
    """

    def make() -> Tokenizer:
        tokenizer = Tokenizer.from_str(backend)
        tokenizer.encode_special_tokens = split_special_tokens
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    return Pool(make)


_shared_pool = lru_cache(maxsize=4)(tokenizer_pool)

"""The parts of a tokenizer's JSON that decide what may be done with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

Vocabulary: TypeAlias = dict[str, int] | list[tuple[str, float]]
"""Ids by spelling; a Unigram model lists its pieces by id, with their scores."""


class AddedToken(msgspec.Struct, frozen=True):
    """One entry of the added vocabulary."""

    id: int
    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = False


class Component(msgspec.Struct, frozen=True):
    """A normalizer, pre-tokenizer or post-processor, with the fields that any of them has."""

    type: str
    normalizers: tuple[Component, ...] = ()
    pretokenizers: tuple[Component, ...] = ()
    processors: tuple[Component, ...] = ()
    pattern: dict[str, str] = msgspec.field(default_factory=dict)
    """Either {"String": ...} or {"Regex": ...}."""
    content: str = ""
    prepend: str = ""
    prepend_scheme: str = ""
    replacement: str = ""
    behavior: str = ""
    invert: bool = False
    add_prefix_space: bool = False
    trim_offsets: bool = False

    def flat(self) -> Iterator[Component]:
        """The component, or what a sequence of them holds, in order."""
        if self.type != "Sequence":
            yield self
        for part in (*self.normalizers, *self.pretokenizers, *self.processors):
            yield from part.flat()


class Model(msgspec.Struct, frozen=True):
    """The model's vocabulary and how it treats what the vocabulary lacks."""

    vocab: Vocabulary
    type: str = ""
    unk_token: str | None = None
    dropout: float | None = None
    byte_fallback: bool = False
    continuing_subword_prefix: str | None = None
    end_of_word_suffix: str | None = None

    def ids(self) -> dict[str, int]:
        """The vocabulary by spelling, whatever the model."""
        if isinstance(self.vocab, dict):
            return self.vocab
        return {piece: index for index, (piece, _) in enumerate(self.vocab)}


class TokenizerSpec(msgspec.Struct, frozen=True):
    """A tokenizer."""

    added_tokens: tuple[AddedToken, ...]
    model: Model
    normalizer: Component | None = None
    pre_tokenizer: Component | None = None
    post_processor: Component | None = None

    def normalizers(self) -> tuple[Component, ...]:
        """In order; empty where text stays as it is."""
        return () if self.normalizer is None else tuple(self.normalizer.flat())

    def pre_tokenizers(self) -> tuple[Component, ...]:
        """In order."""
        return () if self.pre_tokenizer is None else tuple(self.pre_tokenizer.flat())

    def post_processors(self) -> tuple[Component, ...]:
        """In order."""
        return () if self.post_processor is None else tuple(self.post_processor.flat())


def parse(backend: str) -> TokenizerSpec:
    """Read a tokenizer's JSON, as `tokenizers` writes it."""
    return msgspec.json.decode(backend, type=TokenizerSpec)


class _AddedOnly(msgspec.Struct):
    added_tokens: tuple[AddedToken, ...]


def added_tokens(backend: str) -> tuple[AddedToken, ...]:
    """The added vocabulary alone, without decoding the other one: that is megabytes."""
    return msgspec.json.decode(backend, type=_AddedOnly).added_tokens

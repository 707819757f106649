"""Which tokenizers a fast engine may stand in for, and what their offsets follow from.

Only what was compared with the reference over all of Unicode is let through; everything else is
tokenized by the reference. Being let through is not yet being used: the engine is compared with
the reference again when it is loaded, and on a share of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from promptmill.pipeline.engines.spec import Component, TokenizerSpec

WORD_MARK: Final = "\u2581"
"""What SentencePiece vocabularies write for a space."""


class Family(StrEnum):
    """How a vocabulary writes bytes."""

    BYTE_LEVEL = "byte_level"
    """Every byte is a character of GPT-2's alphabet."""
    BYTE_FALLBACK = "byte_fallback"
    """Pieces are text; a character that no piece has is written as `<0xNN>` bytes."""


class Prefix(StrEnum):
    """Where a word mark that the text does not have is put in front of it."""

    NONE = "none"
    EVERY_SEGMENT = "every_segment"
    """At the start and after every added token."""
    UNMARKED_SEGMENT = "unmarked_segment"
    """The same, unless a space or a word mark stands there."""
    UNMARKED_START = "unmarked_start"
    """At the start only, unless a space or a word mark stands there."""


class NotProven(Exception):
    """No fast engine may be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What is known of a tokenizer that a fast engine may stand in for."""

    family: Family
    nfc: bool
    """Text is normalized to NFC first."""
    prefix: Prefix


def proven_traits(spec: TokenizerSpec) -> Traits:
    """What a tokenizer is like.

    Raises:
        NotProven: it uses something that no fast engine was proven for.
    """
    _check_model(spec)
    _check_added_tokens(spec)
    _check_post_processors(spec)
    byte_level = any(part.type == "ByteLevel" for part in spec.pre_tokenizers())
    return _byte_level(spec) if byte_level else _byte_fallback(spec)


def byte_alphabet() -> dict[str, int]:
    """GPT-2's alphabet: the character that stands for each byte, to the byte.

    Printable Latin-1 bytes stand for themselves, the others for U+0100 and on, in order.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(0x100 + i): byte for i, byte in enumerate(others)
    }


def byte_pieces() -> dict[str, int]:
    """The pieces that stand for single bytes in a vocabulary with byte fallback."""
    return {f"<0x{byte:02X}>": byte for byte in range(256)}


def _check_model(spec: TokenizerSpec) -> None:
    model = spec.model
    if model.type != "BPE":
        raise NotProven(f"the tokenizer's model is {model.type or 'of no type'}, not BPE")
    if model.dropout:
        raise NotProven("the tokenizer drops merges at random")
    if model.continuing_subword_prefix or model.end_of_word_suffix:
        raise NotProven("the tokenizer marks the parts of words")


def _check_added_tokens(spec: TokenizerSpec) -> None:
    for token in spec.added_tokens:
        if token.lstrip or token.rstrip or token.single_word:
            raise NotProven(f"added token {token.content!r} strips or asks for whole words")
        if token.normalized and spec.normalizers():
            raise NotProven(f"added token {token.content!r} is looked for in normalized text")


def _check_post_processors(spec: TokenizerSpec) -> None:
    known = {"ByteLevel", "TemplateProcessing", "BertProcessing"}
    if any(part.type not in known or part.trim_offsets for part in spec.post_processors()):
        raise NotProven("the post-processor is unknown or trims offsets")


def _byte_level(spec: TokenizerSpec) -> Traits:
    *splits, last = spec.pre_tokenizers()
    if any(part.type != "Split" or not _isolates(part) for part in splits):
        raise NotProven("the pre-tokenizer is unknown")
    if last.type != "ByteLevel" or last.add_prefix_space:
        raise NotProven("the pre-tokenizer adds a prefix space")
    normalizers = [part.type for part in spec.normalizers()]
    if normalizers not in ([], ["NFC"]):
        raise NotProven(f"normalizers {normalizers} are unknown")
    _check_covers(spec, byte_alphabet())
    return Traits(Family.BYTE_LEVEL, bool(normalizers), Prefix.NONE)


def _byte_fallback(spec: TokenizerSpec) -> Traits:
    if not spec.model.byte_fallback:
        raise NotProven("the vocabulary does not cover every byte")
    _check_covers(spec, byte_pieces())
    return Traits(Family.BYTE_FALLBACK, False, _prefix(spec))


def _prefix(spec: TokenizerSpec) -> Prefix:
    normalizers, pre_tokenizers = spec.normalizers(), spec.pre_tokenizers()
    marks = Component("Replace", pattern={"String": " "}, content=WORD_MARK)
    prepends = Component("Prepend", prepend=WORD_MARK)
    by_space = Component("Split", pattern={"String": " "}, behavior="MergedWithPrevious")
    if pre_tokenizers in ((), (by_space,)):
        if normalizers == (marks,):
            return Prefix.NONE
        if normalizers == (prepends, marks):
            return Prefix.EVERY_SEGMENT
    elif not normalizers and len(pre_tokenizers) == 1:
        part = pre_tokenizers[0]
        if part.type == "Metaspace" and part.replacement == WORD_MARK:
            return _SCHEMES[part.prepend_scheme]
    raise NotProven("the normalizers or pre-tokenizers are unknown")


_SCHEMES: Final = {
    "never": Prefix.NONE,
    "always": Prefix.UNMARKED_SEGMENT,
    "first": Prefix.UNMARKED_START,
}
"""Metaspace's prepend schemes, all there are."""


def _isolates(split: Component) -> bool:
    return split.behavior == "Isolated" and not split.invert


def _check_covers(spec: TokenizerSpec, pieces: dict[str, int]) -> None:
    if not pieces.keys() <= spec.model.ids().keys():
        raise NotProven("the vocabulary does not cover every byte")

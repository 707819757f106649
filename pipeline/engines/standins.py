"""A tokenizer whose added tokens are replaced by a few stand-ins that no text contains.

A stand-in is one noncharacter with the flags of the added tokens it stands for: put into a text
in their place, it makes the tokenizer treat the text around it (prefix spaces, `Metaspace`,
stripping) as it would around the token itself. Whole-word matching is left out: a stand-in is put
where a token is, so there is nothing to decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec
from tokenizers.normalizers import Normalizer

from promptmill.pipeline.engines import spec

NONCHARACTERS: Final = tuple(
    [chr(0xFDD0 + i) for i in range(32)]
    + [chr(plane << 16 | end) for plane in range(17) for end in (0xFFFE, 0xFFFF)]
)
"""The 66 code points that Unicode keeps free of meaning for ever."""


class Flags(NamedTuple):
    """How an added token takes part in splitting a text."""

    lstrip: bool
    rstrip: bool
    normalized: bool


GROUP: Final = 2 ** len(Flags._fields)
GROUPS: Final = tuple(
    NONCHARACTERS[start : start + GROUP] for start in range(0, len(NONCHARACTERS) - GROUP, GROUP)
)
"""Sets of characters to make stand-ins of: a text that contains one set is given another."""


@dataclass(frozen=True, slots=True)
class StandIns:
    """A tokenizer with stand-ins for its added tokens."""

    backend: str
    """Its JSON."""
    characters: dict[str, str]
    """Spelling of an added token to its stand-in."""
    ids: dict[str, int]
    """Spelling of an added token to its own id."""
    first_id: int
    """Stand-ins have this id and the following ones; no other token has."""


def with_stand_ins(backend: str, normalizer: Normalizer | None, group: tuple[str, ...]) -> StandIns:
    """The same tokenizer with its added tokens replaced by characters of a group.

    Args:
        backend: the tokenizer's JSON.
        normalizer: the tokenizer's own.
        group: one of `GROUPS`.
    """
    parsed = spec.parse(backend)
    kinds = {token: _flags(token) for token in parsed.added_tokens}
    characters = dict(zip(sorted(set(kinds.values())), group, strict=False))
    vocab = parsed.model.vocab
    if isinstance(vocab, dict):
        # Listed in the vocabulary, a token keeps its id also where the ids have holes.
        first = 1 + max(vocab.values(), default=-1)
        vocab = vocab | {character: first + i for i, character in enumerate(characters.values())}
    else:
        first = len(vocab)
    tokens = [
        spec.AddedToken(
            id=first + i,
            content=character,
            lstrip=flags.lstrip,
            rstrip=flags.rstrip,
            normalized=flags.normalized
            and (normalizer is None or normalizer.normalize_str(character) == character),
            special=True,
        )
        for i, (flags, character) in enumerate(characters.items())
    ]
    return StandIns(
        _rewritten(backend, vocab, tokens),
        {token.content: characters[flags] for token, flags in kinds.items()},
        {token.content: token.id for token in kinds},
        first,
    )


def _flags(token: spec.AddedToken) -> Flags:
    return Flags(token.lstrip, token.rstrip, token.normalized)


def _rewritten(backend: str, vocab: spec.Vocabulary, tokens: list[spec.AddedToken]) -> str:
    whole = msgspec.json.decode(backend, type=dict[str, msgspec.Raw])
    model = msgspec.json.decode(whole["model"], type=dict[str, msgspec.Raw])
    model["vocab"] = msgspec.Raw(msgspec.json.encode(vocab))
    whole["model"] = msgspec.Raw(msgspec.json.encode(model))
    whole["added_tokens"] = msgspec.Raw(msgspec.json.encode(tokens))
    return msgspec.json.encode(whole).decode()

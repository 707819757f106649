"""The ids that a tokenizer puts around a prompt when asked to add special tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tokenizers import Encoding, Tokenizer

from promptmill.pipeline.engines.pool import reference_pool
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.request import Ids


@dataclass(frozen=True, slots=True)
class AddedIds:
    """What `add_special_tokens=True` adds around one prompt: BOS, EOS and the like."""

    prefix: Ids
    suffix: Ids

    def __len__(self) -> int:
        return len(self.prefix) + len(self.suffix)


def added_special_ids(bundle: ModelBundle) -> AddedIds | None:
    """What the model's post-processor adds around a single prompt, found by asking it.

    Returns:
        The ids; None where they are not a fixed prefix and suffix, so that no slice of a batch
        can equal what the tokenizer gives.

    Raises:
        JobError: the model's tokenizer is no serialisable backend.
    """
    with reference_pool(bundle).borrow() as tokenizer:
        added = _ends(tokenizer.encode("a", add_special_tokens=True))
        spellings = [
            tokenizer.decode([int(i)], skip_special_tokens=False)
            for i in (*added.prefix, *added.suffix)
        ]
        probes = ["", "a", " a b ", *spellings, *(f"{s}{s} a{s}" for s in spellings)]
        return added if all(_holds(tokenizer, added, text) for text in probes) else None


def _ends(encoding: Encoding) -> AddedIds:
    ids, plain = np.asarray(encoding.ids, np.int32), np.asarray(encoding.special_tokens_mask) == 0
    if not plain.any():
        return AddedIds(ids, ids[:0])
    first, last = int(plain.argmax()), len(ids) - int(plain[::-1].argmax())
    return AddedIds(ids[:first], ids[last:])


def _holds(tokenizer: Tokenizer, added: AddedIds, text: str) -> bool:
    bare = tokenizer.encode(text, add_special_tokens=False)
    full = tokenizer.encode(text, add_special_tokens=True)
    before, after = [(0, 0)] * len(added.prefix), [(0, 0)] * len(added.suffix)
    return (
        full.ids == [*added.prefix, *bare.ids, *added.suffix]
        and full.offsets == before + bare.offsets + after
    )

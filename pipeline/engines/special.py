"""The ids that a tokenizer puts around a prompt when asked to add special tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tokenizers import Encoding, Tokenizer

from promptmill.pipeline.engines.pool import reference_pool
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.options import Side
from promptmill.schemas.request import Ids, Offsets


@dataclass(frozen=True, slots=True)
class AddedIds:
    """What `add_special_tokens=True` adds around one prompt: BOS, EOS and the like."""

    prefix: Ids
    suffix: Ids

    def __len__(self) -> int:
        return len(self.prefix) + len(self.suffix)

    def around(
        self, ids: Ids, offsets: Offsets | None, *, limit: int | None, side: Side
    ) -> tuple[Ids, Offsets | None]:
        """Cut to `limit` ids and add the special ones, as Hugging Face tokenizers do.

        The added ids count against the limit and are never cut: `limit - len(self)` ids of the
        text are kept, and a limit below `len(self)` cuts nothing at all (the server then slices
        the ids again). Offsets of added ids are (0, 0).
        """
        if limit is not None and len(self) <= limit < len(ids) + len(self):
            kept = limit - len(self)
            cut = slice(len(ids) - kept, None) if side is Side.LEFT else slice(kept)
            ids, offsets = ids[cut], None if offsets is None else offsets[cut]
        if not len(self):
            return ids, offsets
        if offsets is not None:
            nowhere = (_nowhere(self.prefix), offsets, _nowhere(self.suffix))
            offsets = np.concatenate(nowhere)
        return np.concatenate((self.prefix, ids, self.suffix)), offsets


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
    nowhere = (0, 0)
    return full.ids == [*added.prefix, *bare.ids, *added.suffix] and full.offsets == [
        nowhere
    ] * len(added.prefix) + bare.offsets + [nowhere] * len(added.suffix)


def _nowhere(ids: Ids) -> Offsets:
    return np.zeros((len(ids), 2), np.int32)

"""Labels: the ids that a loss is taken on."""

from __future__ import annotations

from collections.abc import Iterable

from promptmill.schemas.columns import NO_LOSS
from promptmill.schemas.request import Ids, Mask


def labels_of(ids: Ids, mask: Mask | None, spans: Iterable[tuple[int, int]]) -> Ids:
    """An entry an id: the id itself where a loss belongs, `NO_LOSS` elsewhere; not shifted.

    The mask decides where there is one. Without, all text counts, as in plain language modelling.
    Media never do.

    Args:
        ids: of a prompt.
        mask: shorter than the ids only by padding.
        spans: offset and length of its media.
    """
    labels = ids.copy()
    if mask is not None:
        labels[: len(mask)][mask == 0] = NO_LOSS
        labels[len(mask) :] = NO_LOSS
    for offset, length in spans:
        labels[offset : offset + length] = NO_LOSS
    return labels

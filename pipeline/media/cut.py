"""The second truncation: a media item is kept whole or the row is refused.

Profile rule (vLLM 0.33.0, `_truncate_expanded_prompt` of `renderers/base.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.media import MediaSpan


def cut_spans(
    spans: Sequence[MediaSpan], cut: slice | None, *, length: int, requested: int
) -> tuple[MediaSpan, ...]:
    """The spans after a cut, moved to where their ids then are.

    Args:
        spans: in the expanded ids.
        cut: what `TokenizeParams.truncation_slice` says of the expanded length; None: no cut.
        length: of the expanded ids.
        requested: `truncate_prompt_tokens` as the row gave it; for the message.

    Raises:
        RowError: MEDIA_SPLIT; the cut would split or drop an item.
    """
    if cut is None:
        return tuple(spans)
    start, stop, _ = cut.indices(length)
    for span in spans:
        if span.offset < start or span.offset + span.length > stop:
            raise _split(span, length, requested)
    return tuple(replace(span, offset=span.offset - start) for span in spans)


def _split(span: MediaSpan, length: int, requested: int) -> RowError:
    return RowError(
        ErrorCode.MEDIA_SPLIT,
        f"truncate_prompt_tokens={requested} would split or drop a(n) {span.modality} item "
        f"(number {span.index}), which spans tokens {span.offset} to {span.offset + span.length} "
        f"of the {length}-token prompt. Raise truncate_prompt_tokens, or shorten the text or the "
        "media.",
        parameter="truncate_prompt_tokens",
        value=requested,
        stage=Stage.FIT,
    )


def lost_before_expansion(modality: str, index: int, length: int, requested: int) -> RowError:
    """For an item whose placeholder the first cut, on unexpanded ids, took away.

    Args:
        modality: of the item.
        index: 0-based among the row's items of its modality.
        length: ids that the first cut left.
        requested: `truncate_prompt_tokens` as the row gave it.
    """
    return RowError(
        ErrorCode.MEDIA_SPLIT,
        f"truncate_prompt_tokens={requested} drops a(n) {modality} item (number {index}): its "
        f"placeholder is not among the {length} tokens that are left before media are expanded. "
        "Raise truncate_prompt_tokens, or shorten the text.",
        parameter="truncate_prompt_tokens",
        value=requested,
        stage=Stage.EXPAND,
    )

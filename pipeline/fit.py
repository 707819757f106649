"""Cut, pad and check token ids: first on the unexpanded prompt, then after media expansion.

The order is the server's: truncation, padding, length check; expansion; truncation again, which
refuses to split a media item; then what the engine checks. One slice cuts everything that runs
parallel to the ids.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from promptmill.pipeline.params import TokenizeParams
from promptmill.pipeline.tokenize import Tokens
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.request import Ids


def cut(tokens: Tokens, part: slice | None) -> Tokens:
    """`tokens` with one slice applied to all that is parallel; None: as they are."""
    if part is None:
        return tokens
    length = len(tokens.ids)
    start, stop, _ = part.indices(length)
    return replace(
        tokens,
        whole=tokens.whole if tokens.cut_left or tokens.cut_right else _whole(tokens),
        ids=tokens.ids[part],
        offsets=None if tokens.offsets is None else tokens.offsets[part],
        mask=None if tokens.mask is None else tokens.mask[part],
        cut_left=tokens.cut_left + start,
        cut_right=tokens.cut_right + length - stop,
    )


def _whole(tokens: Tokens) -> Ids | None:
    """The ids of the whole prompt; None where the character gate cut the text before."""
    text, fitted = tokens.text, tokens.fitted_text
    gated = text is not None and fitted is not None and len(fitted) < len(text)
    return None if gated else tokens.ids


@dataclass(frozen=True, slots=True)
class Fitter:
    """The first cut of a prompt: truncation, padding and the length check on unexpanded ids."""

    tokenizer_side: str
    pad_token_id: int | None

    def first_cut(self, tokens: Tokens, params: TokenizeParams) -> Tokens:
        """Truncate, pad and check.

        Raises:
            RowError: PROMPT_TOO_LONG; INVALID_BUDGET where padding is asked of a tokenizer that
                has no pad token.
        """
        tokens = cut(tokens, params.truncation_slice(len(tokens.ids), self.tokenizer_side))
        counted, stop = len(tokens.ids), params.tokenizer_limit
        if stop is not None and tokens.text is not None:
            counted = min(counted, stop)  # the server's tokenizer stops there; ids are all counted
        pads = params.padding(counted)
        params.check_length(counted + pads)
        return self._pad(tokens, pads)

    def _pad(self, tokens: Tokens, count: int) -> Tokens:
        if not count:
            return tokens
        if self.pad_token_id is None or self.pad_token_id < 0:
            raise RowError(
                ErrorCode.INVALID_BUDGET,
                "This tokenizer has no pad token; ask for no padding (pad_prompt_tokens).",
                parameter="pad_prompt_tokens",
                value=count,
                stage=Stage.FIT,
            )
        pads = np.full(count, self.pad_token_id, np.int32)
        return replace(tokens, ids=np.concatenate([tokens.ids, pads]))

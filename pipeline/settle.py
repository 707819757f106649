"""From ids to the row that is stored: defaults, output budget, the engine's checks, warnings."""

from __future__ import annotations

from msgspec.structs import replace

from promptmill.pipeline.answer import resolve_answer
from promptmill.pipeline.limits import check_engine_limits, resolve_max_tokens
from promptmill.pipeline.model.generation import generation_defaults
from promptmill.pipeline.steps import TokenizedJob
from promptmill.pipeline.tokenize import Tokens
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.options import JobOptions, Task
from promptmill.schemas.request import (
    DOUBLE_BOS,
    EMPTY_MASK,
    NO_TURN,
    Answer,
    Ids,
    Request,
    TokenRow,
)


class Settler:
    """Finishes rows of one model under one set of options."""

    def __init__(
        self,
        bundle: ModelBundle,
        options: JobOptions,
        max_model_len: int,
    ) -> None:
        self._bundle = bundle
        self._options = options
        self._max_model_len = max_model_len
        self._defaults = generation_defaults(bundle) if options.task is Task.GENERATE else {}
        self._max_token_id = max(bundle.facts.max_token_id, (bundle.model_vocab_size or 0) - 1)

    def settle(self, item: TokenizedJob) -> TokenRow:
        """The row as it is stored.

        Raises:
            RowError: what the server or its engine would refuse now.
        """
        ids, budget = item.tokens.ids, self._budget(item, len(item.tokens.ids))
        highest = lowest = 0  # what the tokenizer makes of text is in its vocabulary
        if item.rendered.text is None or item.spans:
            highest, lowest = int(ids.max(initial=0)), int(ids.min(initial=0))
        check_engine_limits(
            len(ids),
            highest,
            lowest,
            max_model_len=self._max_model_len,
            max_token_id=self._max_token_id,
            generates=budget is not None,
        )
        return self.token_row(item, budget)

    def _budget(self, item: TokenizedJob, num_tokens: int) -> int | None:
        answer = item.rendered.answer
        if answer is not None and self._options.task is Task.GENERATE:
            return resolve_answer(
                answer,
                num_tokens=num_tokens,
                max_model_len=self._max_model_len,
                asked=self._options.max_tokens,
                lowers=item.job.params.truncate_prompt_tokens is not None,
            )
        return resolve_max_tokens(
            item.job.request,
            self._options,
            max_model_len=self._max_model_len,
            truncated_to=item.job.params.truncate_prompt_tokens,
            num_tokens=num_tokens,
            generation_defaults=self._defaults,
        )

    def token_row(self, item: TokenizedJob, max_tokens: int | None = None) -> TokenRow:
        """The row with the output budget given, not checked."""
        request, tokens = item.job.request, item.tokens
        return TokenRow(
            request=self._settled(request, item.rendered.answer),
            text=tokens.text,
            ids=tokens.ids,
            offsets=tokens.offsets if self._options.with_offsets else None,
            mask=tokens.mask,
            spans=item.spans,
            max_tokens=max_tokens,
            original_num_tokens=tokens.original_num_tokens,
            truncated_left=tokens.cut_left,
            truncated_right=tokens.cut_right,
            other_side=_other_side(tokens),
            warnings=(
                *request.warnings,
                *item.rendered.warnings,
                *self._bos_warnings(tokens),
                *_mask_warnings(item),
            ),
        )

    def _settled(self, request: Request, answer: Answer | None) -> Request:
        """The model's generation defaults under what the row asks for, a library's word over it."""
        over = answer.fields if answer is not None else {}
        if not self._defaults and not over:
            return request
        return replace(request, passthrough={**self._defaults, **request.passthrough, **over})

    def _bos_warnings(self, tokens: Tokens) -> tuple[str, ...]:
        bos = self._bundle.facts.bos_token_id
        if bos is None or tokens.ids[:2].tolist() != [bos, bos]:
            return ()
        return (f"{DOUBLE_BOS}: the prompt starts with two BOS ids ({bos})",)


def _mask_warnings(item: TokenizedJob) -> tuple[str, ...]:
    tokens = item.tokens
    if tokens.mask is None or tokens.mask.any() or NO_TURN in item.rendered.warnings:
        return ()
    cut = ", what it marked was cut off" if tokens.cut_left or tokens.cut_right else ""
    return (f"{EMPTY_MASK}: the mask is all zeros{cut}",)


def _other_side(tokens: Tokens) -> Ids | None:
    """See `TokenRow.other_side`."""
    if tokens.whole is None:
        return None
    length = len(tokens.whole)
    kept = length - tokens.cut_left - tokens.cut_right
    return tokens.whole[:kept] if tokens.cut_left else tokens.whole[length - kept :]

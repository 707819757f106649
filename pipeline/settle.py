"""From ids to the row that is stored: defaults, output budget, the engine's checks, warnings."""

from __future__ import annotations

from dataclasses import replace

from promptmill.pipeline.answer import resolve_answer
from promptmill.pipeline.limits import check_engine_limits, resolve_max_tokens
from promptmill.pipeline.model.generation import generation_defaults
from promptmill.pipeline.steps import TokenizedJob
from promptmill.pipeline.tokenize import TextTokenizer, Tokens
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.options import JobOptions, Task
from promptmill.schemas.request import DOUBLE_BOS, Answer, Request, TokenRow


class Settler:
    """Finishes rows of one model under one set of options."""

    def __init__(
        self,
        bundle: ModelBundle,
        options: JobOptions,
        tokenizer: TextTokenizer,
        max_model_len: int,
    ) -> None:
        self._bundle = bundle
        self._options = options
        self._tokenizer = tokenizer
        self._max_model_len = max_model_len
        self._defaults = generation_defaults(bundle) if options.task is Task.GENERATE else {}
        self._max_token_id = max(bundle.facts.max_token_id, (bundle.model_vocab_size or 0) - 1)

    def settle(self, item: TokenizedJob) -> TokenRow:
        """The row as it is stored.

        Raises:
            RowError: what the server or its engine would refuse now.
        """
        row = self.token_row(item)
        budget = self._budget(item, len(row.ids))
        check_engine_limits(
            len(row.ids),
            int(row.ids.max(initial=0)),
            int(row.ids.min(initial=0)),
            max_model_len=self._max_model_len,
            max_token_id=self._max_token_id,
            generates=budget is not None,
        )
        return replace(row, max_tokens=budget)

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

    def token_row(self, item: TokenizedJob) -> TokenRow:
        """The row before its output budget is settled."""
        request, tokens = item.job.request, item.tokens
        text = tokens.text
        if text is None and item.job.params.needs_detokenization:
            text = self._tokenizer.decode(tokens.ids.tolist())
        return TokenRow(
            request=self._settled(request, item.rendered.answer),
            text=text,
            ids=tokens.ids,
            offsets=tokens.offsets if self._options.with_offsets else None,
            mask=tokens.mask,
            spans=item.spans,
            original_num_tokens=tokens.original_num_tokens,
            truncated_left=tokens.cut_left,
            truncated_right=tokens.cut_right,
            warnings=(*request.warnings, *item.rendered.warnings, *self._bos_warnings(tokens)),
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

"""A batch of raw rows in, token rows and rejects out: the file to read first.

    parse -> render -> tokenize -> fit (-> expand -> fit again) -> settle

Each step takes what the last one gave and loses only the rows that fail in it. Reading and
writing are around this, in `read/` and `write/`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias, TypeVar

from promptmill.pipeline.fit import Fitter
from promptmill.pipeline.limits import check_engine_limits, resolve_max_tokens, tokenize_params
from promptmill.pipeline.model.generation import generation_defaults
from promptmill.pipeline.model.length import check_max_model_len
from promptmill.pipeline.params import TokenizeParams
from promptmill.pipeline.parse.rows import parse_row
from promptmill.pipeline.render.guard import GuardedRenderer
from promptmill.pipeline.render.load import load_renderer
from promptmill.pipeline.tokenize import TextJob, TextTokenizer, Tokens, load_tokenizer
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.options import JobOptions, OnOverlong, Task
from promptmill.schemas.request import (
    DOUBLE_BOS,
    EncodedBatch,
    Endpoint,
    RawRow,
    Reject,
    Rendered,
    Request,
    TokenRow,
)

log = logging.getLogger(__name__)

R = TypeVar("R")


Refuse: TypeAlias = Callable[["Job", RowError, Stage], None]
"""Takes a job that failed, and why."""


@dataclass(frozen=True, slots=True)
class Job:
    """A request on its way, with the row it came from and the rules for it."""

    raw: RawRow
    request: Request
    params: TokenizeParams


@dataclass(frozen=True, slots=True)
class RenderedJob:
    """A job and its rendered prompt."""

    job: Job
    rendered: Rendered


@dataclass(frozen=True, slots=True)
class TokenizedJob:
    """A rendered job and its ids, cut for the first time."""

    job: Job
    rendered: Rendered
    tokens: Tokens


class Encoder:
    """Turns raw rows into token rows for one model and one set of options.

    Loads everything once; `encode` may then be called with batches of any size, and the rows
    come out the same whatever the batching.

    Raises:
        JobError: the model and the options do not go together.
    """

    def __init__(
        self,
        bundle: ModelBundle,
        options: JobOptions,
        clock: datetime,
        tokenizer: TextTokenizer | None = None,
    ) -> None:
        self.bundle = bundle
        self.options = options
        self.max_model_len = check_max_model_len(bundle, options.max_model_len)
        renderer = load_renderer(bundle, options, clock)
        self._renderer = GuardedRenderer(renderer, options.render_timeout)
        self._tokenizer = tokenizer or load_tokenizer(bundle, options.engine)
        facts = bundle.facts
        self._fitter = Fitter(facts.truncation_side, facts.pad_token_id)
        self._defaults = generation_defaults(bundle) if options.task is Task.GENERATE else {}
        self._max_token_id = max(facts.max_token_id, (bundle.model_vocab_size or 0) - 1)
        self._ids_seen: set[str] = set()

    def with_options(self, options: JobOptions, clock: datetime) -> Encoder:
        """Another encoder for the same model, sharing the loaded tokenizer."""
        return Encoder(self.bundle, options, clock, self._tokenizer)

    @property
    def needs_replacement(self) -> bool:
        """Whether a template hangs in this process, so that it should be replaced soon."""
        return self._renderer.stuck

    def start_shard(self) -> None:
        """Forget the ids seen: duplicates are looked for within a shard."""
        self._ids_seen.clear()

    def encode(self, rows: Sequence[RawRow]) -> EncodedBatch:
        """One batch, from raw rows to token rows; rows and rejects are in input order."""
        rejects: list[Reject] = []

        def refuse(job: Job, error: RowError, stage: Stage) -> None:
            error.stage = error.stage or stage
            request = job.request
            rejects.append(Reject(job.raw, error, request.custom_id, request.place.prompt_index))

        parsed = [parse_row(row, self.options) for row in rows]
        rejects += [item for found in parsed for item in found if isinstance(item, Reject)]
        jobs = self._jobs(rows, parsed, refuse)
        tokenized = self.tokenize(self.render(jobs, refuse), refuse)
        done = list(_each(self.settle, tokenized, refuse, Stage.FIT))
        order = {id(row): n for n, row in enumerate(rows)}
        rejects.sort(key=lambda reject: (order[id(reject.row)], reject.prompt_index))
        return EncodedBatch(done, rejects, blank_lines=sum(not found for found in parsed))

    def rules(self, request: Request) -> TokenizeParams:
        """The budget and truncation rules for one prompt.

        Raises:
            RowError: INVALID_BUDGET where the row's fields contradict the context length.
        """
        return tokenize_params(request, self.options, self.max_model_len, self.bundle.facts)

    def render(self, jobs: Sequence[Job], refuse: Refuse) -> list[RenderedJob]:
        """Chat template, or the prompt as it is."""
        results = self._renderer.render_batch([job.request for job in jobs])
        pairs = _keep(jobs, results, refuse, Stage.RENDER)
        return [RenderedJob(job, rendered) for job, rendered in pairs]

    def tokenize(self, rendered: Sequence[RenderedJob], refuse: Refuse) -> list[TokenizedJob]:
        """Ids and offsets of the whole batch, then the first cut of each row."""
        texts = [self._text_job(item) for item in rendered]
        tokens = self._tokenizer.encode(texts)
        kept = _keep([item.job for item in rendered], tokens, refuse, Stage.TOKENIZE)
        by_job = {id(item.job): item.rendered for item in rendered}
        whole = [TokenizedJob(job, by_job[id(job)], found) for job, found in kept]
        return list(_each(self._first_cut, whole, refuse, Stage.FIT))

    def settle(self, item: TokenizedJob) -> TokenRow:
        """The output budget and the engine's checks: the row as it is stored.

        Raises:
            RowError: what the server or its engine would refuse now.
        """
        row = self.token_row(item)
        request, params = item.job.request, item.job.params
        budget = resolve_max_tokens(
            request,
            self.options,
            params,
            num_tokens=len(row.ids),
            generation_defaults=self._defaults,
        )
        self.check_engine(row, generates=budget is not None)
        return replace(row, max_tokens=budget)

    def check_engine(self, row: TokenRow, *, generates: bool) -> None:
        """What the engine would refuse after rendering.

        Raises:
            RowError: EMPTY_PROMPT, TOKEN_OUT_OF_VOCABULARY or PROMPT_TOO_LONG.
        """
        check_engine_limits(
            len(row.ids),
            int(row.ids.max(initial=0)),
            int(row.ids.min(initial=0)),
            max_model_len=self.max_model_len,
            max_token_id=self._max_token_id,
            generates=generates,
        )

    def token_row(self, item: TokenizedJob) -> TokenRow:
        """A row of what is known before the output budget is settled."""
        request, tokens = item.job.request, item.tokens
        text = tokens.text
        if text is None and item.job.params.needs_detokenization:
            text = self._tokenizer.decode(tokens.ids.tolist())
        warnings = (*request.warnings, *item.rendered.warnings, *self._bos_warnings(tokens))
        return TokenRow(
            request=self._with_defaults(request),
            text=text,
            ids=tokens.ids,
            offsets=tokens.offsets if self.options.with_offsets else None,
            mask=tokens.mask,
            original_num_tokens=tokens.original_num_tokens,
            truncated_left=tokens.cut_left,
            truncated_right=tokens.cut_right,
            warnings=warnings,
        )

    def _jobs(
        self, rows: Sequence[RawRow], parsed: Sequence[list[Request | Reject]], refuse: Refuse
    ) -> list[Job]:
        """Requests with their rules; repeated ids and impossible budgets are refused."""
        jobs: list[Job] = []
        for row, found in zip(rows, parsed, strict=True):
            for request in found:
                if isinstance(request, Reject):
                    self._ids_seen.update({request.custom_id} - {None})
                    continue
                try:
                    self._check_id(request.custom_id)
                    params = self.rules(request)
                except RowError as error:
                    rules = TokenizeParams(max_total_tokens=self.max_model_len)
                    refuse(Job(row, request, rules), error, Stage.PARSE)
                else:
                    jobs.append(Job(row, request, params))
        return jobs

    def _check_id(self, custom_id: str) -> None:
        if custom_id in self._ids_seen:
            raise RowError(
                ErrorCode.DUPLICATE_ID,
                f"The id {custom_id[:200]!r} was already seen in this shard. Give every row an id "
                "of its own, or none.",
                parameter="custom_id",
            )
        self._ids_seen.add(custom_id)

    def _text_job(self, item: RenderedJob) -> TextJob:
        document = item.job.request.endpoint is Endpoint.DOCUMENT
        return TextJob(
            rendered=item.rendered,
            params=item.job.params,
            append_eos=document and self.options.append_eos,
            mask_wanted=self.options.mask_wanted,
        )

    def _first_cut(self, item: TokenizedJob) -> TokenizedJob:
        try:
            tokens = self._fitter.first_cut(item.tokens, item.job.params)
        except RowError as error:
            raise self._dropped(error) from None
        return replace(item, tokens=tokens)

    def _dropped(self, error: RowError) -> RowError:
        """The same, named as a wanted drop where the job says so."""
        if error.code is ErrorCode.PROMPT_TOO_LONG and self.options.on_overlong is OnOverlong.DROP:
            error.code = ErrorCode.DROPPED_OVERLONG
        return error

    def _with_defaults(self, request: Request) -> Request:
        """The model's generation defaults under what the row asks for."""
        if not self._defaults:
            return request
        return replace(request, passthrough={**self._defaults, **request.passthrough})

    def _bos_warnings(self, tokens: Tokens) -> tuple[str, ...]:
        bos = self.bundle.facts.bos_token_id
        if bos is None or tokens.ids[:2].tolist() != [bos, bos]:
            return ()
        return (f"{DOUBLE_BOS}: the prompt starts with two BOS ids ({bos})",)


def _keep(
    jobs: Sequence[Job], results: Sequence[R | RowError], refuse: Refuse, stage: Stage
) -> Iterator[tuple[Job, R]]:
    """The pairs that went well; the others are refused."""
    for job, result in zip(jobs, results, strict=True):
        if isinstance(result, RowError):
            refuse(job, result, stage)
        else:
            yield job, result


def _each(
    step: Callable[[TokenizedJob], R],
    items: Sequence[TokenizedJob],
    refuse: Refuse,
    stage: Stage,
) -> Iterator[R]:
    """One step over many rows; what fails is refused, whatever the failure."""
    for item in items:
        try:
            yield step(item)
        except RowError as error:
            refuse(item.job, error, stage)
        except Exception as error:  # one row must not take the others with it
            log.exception("row %s failed in step %s", item.job.request.place, stage)
            refuse(item.job, internal_error(error), stage)


def internal_error(error: Exception) -> RowError:
    """A failure of ours, without anything of the row's content."""
    return RowError(
        ErrorCode.INTERNAL_ERROR,
        f"promptmill failed on this row ({type(error).__name__}); the log has the details. "
        "Please report it.",
    )

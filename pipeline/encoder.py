"""A batch of raw rows in, token rows and rejects out: the file to read first.

    parse -> render -> tokenize -> fit -> expand -> fit again -> settle

Each step takes what the last one gave and loses only the rows that fail in it. Reading and
writing are around this, in `read/` and `write/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from promptmill.pipeline.expand import MediaStep
from promptmill.pipeline.fit import Fitter
from promptmill.pipeline.intake import Intake
from promptmill.pipeline.limits import tokenize_params
from promptmill.pipeline.media import load_expander
from promptmill.pipeline.model.length import check_max_model_len
from promptmill.pipeline.params import TokenizeParams
from promptmill.pipeline.render.guard import GuardedRenderer
from promptmill.pipeline.render.load import load_renderer
from promptmill.pipeline.settle import Settler
from promptmill.pipeline.steps import Job, Refuse, RenderedJob, TokenizedJob, each, keep
from promptmill.pipeline.stopwatch import Stopwatch
from promptmill.pipeline.tokenize import TextJob, TextTokenizer, load_tokenizer
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.options import EngineName, JobOptions, OnOverlong
from promptmill.schemas.request import EncodedBatch, Endpoint, RawRow, Reject, Request


class Encoder:
    """Turns raw rows into token rows for one model and one set of options.

    Loads everything once; `encode` may then be called with batches of any size, and the rows
    come out the same whatever the batching.

    Args:
        bundle: the model.
        options: the job.
        clock: what templates are told the time is.
        tokenizer: an already loaded one of the same model.

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
        options = options.model_copy(update={"tokenizer_mode": bundle.tokenizer_mode})
        self.bundle = bundle
        self.options = options
        self.clock = clock
        self.max_model_len = check_max_model_len(bundle, options.max_model_len)
        self.tokenizer = tokenizer or load_tokenizer(bundle, options.engine, options.segment_cache)
        self._intake = Intake(options, self.admit)
        expander = load_expander(bundle, options, self.tokenizer.codec)
        side = bundle.facts.truncation_side
        self.media = MediaStep(expander, options, side)
        self.renderer = load_renderer(bundle, options, clock, expander)
        self._guard = GuardedRenderer(self.renderer, options.render_timeout)
        self._fitter = Fitter(side, bundle.facts.pad_token_id)
        self.settler = Settler(bundle, options, self.max_model_len)
        self._watch = Stopwatch()

    def on_reference(self) -> Encoder:
        """This encoder, or the same one without a fast engine."""
        if self.options.engine is EngineName.TOKENIZERS:
            return self
        plain = self.options.model_copy(update={"engine": EngineName.TOKENIZERS})
        return Encoder(self.bundle, plain, self.clock)

    @property
    def needs_replacement(self) -> bool:
        """Whether a template hangs in this process, so that it should be replaced soon."""
        return self._guard.stuck

    def start_shard(self) -> Stopwatch:
        """Begin a shard: ids may be repeated from earlier ones. What times its steps."""
        self._intake.start_shard()
        self._watch = Stopwatch()
        return self._watch

    def encode(self, rows: Sequence[RawRow]) -> EncodedBatch:
        """One batch, from raw rows to token rows; rows and rejects are in input order."""
        rejects: list[Reject] = []
        drops = self.options.on_overlong is OnOverlong.DROP

        def refuse(job: Job, error: RowError, stage: Stage) -> None:
            error.stage = error.stage or stage
            if drops and error.code is ErrorCode.PROMPT_TOO_LONG:
                error.code = ErrorCode.DROPPED_OVERLONG
            place = job.request.place
            rejects.append(Reject(job.raw, error, job.request.custom_id, place.prompt_index))

        with self._watch.step("parse"):
            jobs, blank = self._intake.take(rows, rejects)
        tokenized = self.tokenize(self.render(jobs, refuse), refuse)
        with self._watch.step("fit"):
            settled = each(self.settler.settle, tokenized, refuse, Stage.FIT)
            done = [self.media.stored(row) for row in settled]
        if rejects:
            order = {id(row): n for n, row in enumerate(rows)}
            rejects.sort(key=lambda reject: (order[id(reject.row)], reject.prompt_index))
        for reject in rejects:
            reject.error.without_trace()
        return EncodedBatch(done, rejects, blank)

    def admit(self, request: Request) -> TokenizeParams:
        """The budget and truncation rules for one prompt.

        Raises:
            RowError: what the renderer does not take; INVALID_BUDGET where the row's fields
                contradict the context length.
        """
        self.renderer.admit(request)
        return tokenize_params(request, self.options, self.max_model_len, self.bundle.facts)

    def render(self, jobs: Sequence[Job], refuse: Refuse) -> list[RenderedJob]:
        """Chat template, or the prompt as it is."""
        with self._watch.step("render"):
            results = self._guard.render_batch([job.request for job in jobs])
        return [RenderedJob(jobs[n], made) for n, made in keep(jobs, results, refuse, Stage.RENDER)]

    def tokenize(self, rendered: Sequence[RenderedJob], refuse: Refuse) -> list[TokenizedJob]:
        """Ids and offsets of the whole batch, then the cuts of each row."""
        with self._watch.step("tokenize"):
            results = self.tokenizer.encode([self._text_job(item) for item in rendered])
        kept = keep([item.job for item in rendered], results, refuse, Stage.TOKENIZE)
        whole = [TokenizedJob(rendered[n].job, rendered[n].rendered, found) for n, found in kept]
        with self._watch.step("fit"):
            fitted = list(each(self._first_cut, whole, refuse, Stage.FIT))
        with self._watch.step("expand"):
            self.media.fetch(fitted)
            return list(each(self.media.expand, fitted, refuse, Stage.EXPAND))

    def _text_job(self, item: RenderedJob) -> TextJob:
        document = item.job.request.endpoint is Endpoint.DOCUMENT
        return TextJob(
            rendered=item.rendered,
            params=item.job.params,
            append_eos=document and self.options.append_eos,
            mask_wanted=self.options.mask_wanted,
        )

    def _first_cut(self, item: TokenizedJob) -> TokenizedJob:
        tokens, params = item.tokens, item.job.params
        if not item.rendered.verbatim:
            tokens = self._fitter.first_cut(tokens, params)
        if tokens.text is None and params.needs_detokenization:
            tokens = replace(tokens, text=self.tokenizer.decode(tokens.ids.tolist()))
        return item if tokens is item.tokens else replace(item, tokens=tokens)

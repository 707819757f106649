"""Rendered text to ids and offsets: the character gate, the engine, the tokenizer's own cut.

A batch goes to the engine in one call; a row it cannot take is told from the others and loses
only itself. What the server's tokenizer call does by itself, counting the special tokens it adds
(`get_encode_kwargs`), is done here; every other cut is in `fit.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace

from promptmill.pipeline.engines.base import (
    Engine,
    FlatTokens,
    RowTokens,
    TokensAndErrors,
    encode_each,
)
from promptmill.pipeline.engines.decode import Decoder
from promptmill.pipeline.engines.load import load_engine
from promptmill.pipeline.engines.plain import PlainRanges
from promptmill.pipeline.engines.special import AddedIds, added_special_ids
from promptmill.pipeline.framing import (
    clipped,
    framed_ids,
    framed_mask,
    framed_offsets,
    mask_of,
)
from promptmill.pipeline.media import EngineCodec
from promptmill.pipeline.params import TokenizeParams
from promptmill.schemas.bundle import ModelBundle, TokenizerFacts
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.options import EngineName, SegmentCache
from promptmill.schemas.request import Ids, Mask, Offsets, Rendered

if TYPE_CHECKING:
    from promptmill.pipeline.engines.mistral import Mistral

INT32_MAX = np.iinfo(np.int32).max
_NO_IDS = np.empty(0, np.int32)

Fitted: TypeAlias = tuple[str, int]
"""A text as the engine gets it, and where it begins in the rendered one."""


class TextJob(msgspec.Struct, frozen=True, kw_only=True):
    """One rendered prompt and the rules for it."""

    rendered: Rendered
    params: TokenizeParams
    append_eos: bool = False
    mask_wanted: bool = False


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """A tokenized prompt, cut only where the server's tokenizer call cuts by itself."""

    ids: Ids
    offsets: Offsets | None
    """Into `text`; None for prompts that came as ids."""
    mask: Mask | None
    text: str | None
    """The rendered text, lower-cased where asked; what offsets point into."""
    fitted_text: str | None
    """The text the tokenizer saw: the server's `prompt`."""
    original_num_tokens: int
    cut_left: int = 0
    cut_right: int = 0
    whole: Ids | None = None
    """All ids before the cut, where there was one and they are known."""


class TextTokenizer:
    """Tokenizes batches of rendered prompts with one engine.

    Args:
        engine: text to ids without special tokens.
        ranges: the same for texts whose control tokens are given as ranges; None where no
            renderer of this model gives ranges.
        added: what `add_special_tokens` puts around a prompt; None where that is no fixed
            prefix and suffix.
        decoder: ids to text.
        facts: the character gate, the tokenizer's side and EOS.
    """

    def __init__(
        self,
        engine: Engine,
        ranges: PlainRanges | None,
        added: AddedIds | None,
        decoder: Decoder | Mistral,
        facts: TokenizerFacts,
    ) -> None:
        self.engine = engine
        self._ranges = ranges
        self._added = added
        self._decoder = decoder
        self._facts = facts
        self._side = facts.truncation_side

    @property
    def codec(self) -> EngineCodec:
        """The same tokenizer for single texts, as media rules use it."""
        return EngineCodec(self.engine, self._decoder)

    def decode(self, token_ids: list[int]) -> str:
        """Ids as text, special tokens spelled out."""
        return self._decoder.decode(token_ids)

    def piece(self, token_id: int) -> str:
        """One id as text; the bytes of a part of a character as `\\x..`."""
        text = self.decode([token_id])
        (piece,) = self._decoder.pieces([token_id]) if "\ufffd" in text else [None]
        return text if piece is None else piece.decode("utf-8", "backslashreplace")

    def encode(self, jobs: Sequence[TextJob]) -> list[Tokens | RowError]:
        """One result a job, in order."""
        results: list[Tokens | RowError | None] = [None] * len(jobs)
        fitted: dict[int, Fitted] = {}
        for index, job in enumerate(jobs):
            try:
                text = job.rendered.text
                if job.rendered.token_ids is not None:
                    results[index] = _tokens_of_ids(job.rendered.token_ids)
                elif text is None or job.rendered.hide_text or job.rendered.verbatim:
                    fitted[index] = text or "", 0
                else:
                    fitted[index] = job.params.fit_text(text, self._facts.max_chars_per_token)
            except RowError as error:
                results[index] = error
        for index, found in self._encode_all(jobs, fitted):
            text, shift = fitted[index]
            try:
                if isinstance(found, RowError):
                    raise found
                results[index] = self._finish(jobs[index], found, text, shift)
            except RowError as error:
                results[index] = error
        return [r for r in results if r is not None]

    def _encode_all(
        self, jobs: Sequence[TextJob], fitted: Mapping[int, Fitted]
    ) -> Iterator[tuple[int, RowTokens | RowError]]:
        """Every fitted text through the engine, in two calls: with and without given ranges."""
        ranged = [i for i in fitted if jobs[i].rendered.special_ranges is not None]
        plain = [i for i in fitted if jobs[i].rendered.special_ranges is None] if ranged else fitted
        for chosen, encode in ((plain, self._encode_plain), (ranged, self._encode_ranged)):
            if chosen:
                flat, errors = encode([jobs[i] for i in chosen], [fitted[i] for i in chosen])
                for row, (index, found) in enumerate(zip(chosen, flat.rows(), strict=True)):
                    yield index, errors.get(row) or found

    def _encode_plain(self, jobs: Sequence[TextJob], fitted: Sequence[Fitted]) -> TokensAndErrors:
        texts = [text for text, _ in fitted]
        return encode_each(self.engine, texts, offsets=_offsets_wanted(jobs))

    def _encode_ranged(self, jobs: Sequence[TextJob], fitted: Sequence[Fitted]) -> TokensAndErrors:
        if self._ranges is None:
            refused = RowError(
                ErrorCode.TOKENIZER_ERROR,
                "This tokenizer cannot keep given ranges plain; drop --escape-control-tokens.",
            )
            nothing = FlatTokens(_NO_IDS, np.zeros(len(jobs) + 1, np.int64))
            return nothing, dict.fromkeys(range(len(jobs)), refused)
        ranges = [
            clipped(job.rendered.special_ranges or (), shift, len(text))
            for job, (text, shift) in zip(jobs, fitted, strict=True)
        ]
        texts = [text for text, _ in fitted]
        return self._ranges.encode_each(texts, ranges, offsets=_offsets_wanted(jobs))

    def _finish(self, job: TextJob, tokens: RowTokens, text: str, shift: int) -> Tokens:
        """Mask, the tokenizer's own cut, the special tokens around it, the offset shift."""
        params = job.params
        mask = mask_of(tokens, job.rendered.assistant_spans, shift) if job.mask_wanted else None
        if job.rendered.hide_text:  # the template gave ids: nothing more is done to them here
            return replace(_tokens_of_array(tokens.ids), mask=mask)
        prefix, suffix, learned = self._around(job)
        length, added = len(tokens.ids), len(prefix) + len(suffix)
        cut = None
        asks = params.truncate_prompt_tokens is not None and not job.rendered.verbatim
        limit = params.tokenizer_limit if asks else None
        # A limit below the added ids cuts nothing here: the first cut of `fit` settles it.
        if limit is not None and added <= limit < length + added:
            kept = limit - added
            cut = slice(length - kept, length) if self._side == "left" else slice(0, kept)
        ids, offsets = tokens.ids, tokens.offsets
        whole = None
        if cut is not None:
            whole = framed_ids(prefix, ids, suffix)
            ids = ids[cut]
            offsets = None if offsets is None else offsets[cut]
            mask = None if mask is None else mask[cut]
        if offsets is not None and shift:
            offsets = np.where((offsets == 0).all(axis=1, keepdims=True), offsets, offsets + shift)
        rendered_text = job.rendered.text or ""
        return Tokens(
            ids=framed_ids(prefix, ids, suffix),
            offsets=None if offsets is None else framed_offsets(offsets, len(prefix), len(suffix)),
            mask=None if mask is None else framed_mask(mask, len(prefix), len(suffix), learned),
            text=rendered_text[:shift] + text if params.do_lower_case else rendered_text,
            fitted_text=text,
            original_num_tokens=length + added,
            cut_left=0 if cut is None else cut.start,
            cut_right=0 if cut is None else length - cut.stop,
            whole=whole,
        )

    def _around(self, job: TextJob) -> tuple[Ids, Ids, int]:
        """What goes before and after the text, and how many of the last are to be learned: an end
        that the job asked for, never the special tokens of the tokenizer's."""
        prefix = suffix = _NO_IDS
        if job.params.add_special_tokens and not job.rendered.verbatim:
            if self._added is None:
                raise RowError(
                    ErrorCode.TOKENIZER_ERROR,
                    "The special tokens that this tokenizer adds are no fixed prefix and suffix, "
                    "so they cannot be added here. Ask for add_special_tokens=false.",
                    parameter="add_special_tokens",
                )
            prefix, suffix = self._added.prefix, self._added.suffix
        if (
            job.append_eos
            and self._facts.eos_token_id is not None
            and self._facts.eos_token_id not in suffix[-1:]
        ):
            return prefix, np.append(suffix, np.int32(self._facts.eos_token_id)), 1
        return prefix, suffix, 0


def load_tokenizer(
    bundle: ModelBundle, engine: EngineName, segment_cache: SegmentCache = SegmentCache.OFF
) -> TextTokenizer:
    """The tokenizer of a model, ready for batches; loads in a second or so."""
    if bundle.tokenizer_mode == "mistral":
        from promptmill.pipeline.engines.mistral import load_mistral  # most of a second

        mistral = load_mistral(bundle)
        return TextTokenizer(mistral, None, mistral.added_ids, mistral, bundle.facts)
    return TextTokenizer(
        load_engine(bundle, engine, segment_cache=segment_cache),
        PlainRanges(bundle, engine),
        added_special_ids(bundle),
        Decoder(bundle),
        bundle.facts,
    )


def _offsets_wanted(jobs: Sequence[TextJob]) -> bool:
    return any(job.params.return_token_offsets or job.mask_wanted for job in jobs)


def _tokens_of_ids(token_ids: list[int]) -> Tokens:
    if any(not 0 <= i <= INT32_MAX for i in token_ids):
        bad = next(i for i in token_ids if not 0 <= i <= INT32_MAX)
        raise RowError(
            ErrorCode.TOKEN_OUT_OF_VOCABULARY,
            f"Token id {bad} is out of vocabulary: ids are 0 to {INT32_MAX} at most. "
            "Check what made them.",
            value=bad,
            stage=Stage.TOKENIZE,
        )
    return _tokens_of_array(np.array(token_ids, dtype=np.int32))


def _tokens_of_array(ids: Ids) -> Tokens:
    return Tokens(
        ids=ids,
        offsets=None,
        mask=None,
        text=None,
        fitted_text=None,
        original_num_tokens=len(ids),
    )

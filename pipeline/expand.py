"""The expand step: media placeholders to spans, then the last cut, which never splits one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from promptmill.pipeline.fit import cut
from promptmill.pipeline.media import Expanded, Expander
from promptmill.pipeline.media.admit import row_kwargs
from promptmill.pipeline.media.base import MediaKwargs
from promptmill.pipeline.media.expander import Measured
from promptmill.pipeline.steps import RenderedJob, TokenizedJob
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.options import JobOptions, MediaIds
from promptmill.schemas.request import ChatPrompt, Prompt, TokenRow


@dataclass(frozen=True, slots=True)
class MediaStep:
    """Expands the media of one model's prompts under one set of options."""

    expander: Expander | None
    """None for a model that takes text only."""
    options: JobOptions
    tokenizer_side: str
    """Where a truncation cuts when no side is asked for."""

    def fetch(self, items: Sequence[RenderedJob] | Sequence[TokenizedJob]) -> None:
        """Fetch the media that a batch has on hosts, several at once."""
        if self.expander is not None:
            self.expander.fetch(media for item in items for media in item.rendered.media)

    def measure(self, item: RenderedJob) -> list[Measured | RowError]:
        """What each of a prompt's media is and becomes, in order; nothing is expanded.

        Raises:
            RowError: UNSUPPORTED_REQUEST for arguments of its own that a row may not bring.
        """
        if self.expander is None or not item.rendered.media:
            return []
        kwargs = self._kwargs(item.job.request.prompt)
        return self.expander.measure(item.rendered.media, kwargs)

    def expand(self, item: TokenizedJob) -> TokenizedJob:
        """A prompt with its media in it, cut again to the truncation asked for.

        Raises:
            RowError: a media item cannot be read, has no placeholder, or would be split.
        """
        if not item.rendered.media:
            return item
        if self.expander is None:
            raise RowError(
                ErrorCode.MEDIA_UNSUPPORTED,
                "Media are given to a model that takes text only; remove them.",
            )
        tokens, params = item.tokens, item.job.params
        was_cut = tokens.cut_left or tokens.cut_right
        expanded = self.expander.expand(
            tokens.ids,
            tokens.offsets,
            tokens.mask,
            item.rendered.media,
            kwargs=self._kwargs(item.job.request.prompt),
            truncated_to=params.truncate_prompt_tokens if was_cut else None,
        )
        length = len(expanded.ids)
        part = params.truncation_slice(length, self.tokenizer_side)
        spans = self.expander.cut_spans(
            expanded.spans,
            part,
            length=length,
            requested=params.truncate_prompt_tokens or 0,
        )
        whole = replace(
            tokens,
            ids=expanded.ids,
            offsets=expanded.offsets,
            mask=expanded.mask,
            original_num_tokens=tokens.original_num_tokens + length - len(tokens.ids),
        )
        fitted = cut(whole, part)
        if was_cut:  # what was cut there is not expanded
            fitted = replace(fitted, whole=None)
        return replace(item, tokens=fitted, spans=spans)

    def stored(self, row: TokenRow) -> TokenRow:
        """A finished row with its media as `--media-ids` says; budgets are settled before."""
        if self.expander is None or not row.spans or self.options.media_ids is MediaIds.EXPANDED:
            return row
        made = self.expander.collapse(Expanded(row.ids, row.offsets, row.mask, row.spans))
        return replace(row, ids=made.ids, offsets=made.offsets, mask=made.mask, spans=made.spans)

    def _kwargs(self, prompt: Prompt) -> MediaKwargs:
        if isinstance(prompt, ChatPrompt):
            return row_kwargs(self.options, prompt.mm_processor_kwargs, prompt.media_io_kwargs)
        return row_kwargs(self.options, None, None)

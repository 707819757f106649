"""One row, looked at closely: what was rendered, what each id is, and which rule cut what.

The row goes through the same encoder as in a run; nothing is computed a second way.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.engines.spec import parse
from promptmill.pipeline.intake import Intake
from promptmill.pipeline.steps import Job, TokenizedJob
from promptmill.pipeline.tokenize import TextJob
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import RowError, Stage
from promptmill.schemas.media import MediaSpan
from promptmill.schemas.request import RawRow, Reject, TokenRow


class TokenKind(StrEnum):
    """What an id is there for."""

    TEXT = "text"
    CONTROL = "control"
    MEDIA = "media"
    PADDING = "padding"


@dataclass(frozen=True, slots=True)
class TokenView:
    """One id of a prompt."""

    index: int
    id: int
    piece: str
    """What it decodes to by itself."""
    offsets: tuple[int, int] | None
    kind: TokenKind
    in_mask: bool


@dataclass(frozen=True, slots=True)
class BudgetSheet:
    """Every number that decided the length of a prompt."""

    max_model_len: int
    num_chars: int | None
    max_chars: int
    """The character gate: more are never tokenized."""
    rendered_tokens: int
    """Ids of the rendered text, media not expanded."""
    expanded_tokens: int
    """Ids before any cut, media expanded."""
    kept_tokens: int
    truncate_prompt_tokens: int | None
    """As asked for; negative: as many as the context leaves."""
    resolved_truncation: int | None
    truncation_side: str
    truncated_left: int
    truncated_right: int
    max_output_tokens: int | None
    """As asked for."""
    max_tokens: int | None
    """What is left for output."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A prompt, or the reason why there is none."""

    custom_id: str
    prompt_index: int
    row: TokenRow | None
    tokens: tuple[TokenView, ...] = ()
    sizes: tuple[tuple[int, int] | None, ...] = ()
    """Width and height that each media item was resized to, where patches tell."""
    budget: BudgetSheet | None = None
    error: RowError | None = None


def explain_row(encoder: Encoder, raw: RawRow) -> list[Explanation]:
    """Every prompt of a row, in order; empty for a blank line."""
    found: list[Explanation] = []
    rejects: list[Reject] = []
    jobs, _ = Intake(encoder.options, encoder.admit).take([raw], rejects)
    found += [_refused(reject.custom_id, reject.prompt_index, reject.error) for reject in rejects]
    found += [_explain_job(encoder, job) for job in jobs]
    return sorted(found, key=lambda one: one.prompt_index)


def _explain_job(encoder: Encoder, job: Job) -> Explanation:
    place, errors = job.request.place, list[RowError]()

    def refuse(job: Job, error: RowError, stage: Stage) -> None:
        error.stage = error.stage or stage
        errors.append(error)

    rendered = encoder.render([job], refuse)
    texts = [TextJob(rendered=one.rendered, params=job.params) for one in rendered]
    whole = encoder.tokenizer.encode(texts)
    for item in encoder.tokenize(rendered, refuse):
        row = encoder.settler.token_row(item)
        try:
            row = encoder.settler.settle(item)
        except RowError as error:
            errors.append(error)
        length = whole[0].original_num_tokens if not isinstance(whole[0], RowError) else 0
        return Explanation(
            custom_id=job.request.custom_id,
            prompt_index=place.prompt_index,
            row=row,
            tokens=tuple(_tokens(encoder, row)),
            sizes=tuple(_resized(encoder.bundle, span) for span in row.spans),
            budget=_budget(encoder, item, row, length),
            error=errors[0] if errors else None,
        )
    return _refused(job.request.custom_id, place.prompt_index, errors[0])


def _refused(custom_id: str | None, prompt_index: int, error: RowError) -> Explanation:
    return Explanation(custom_id or "", prompt_index, None, error=error)


def _tokens(encoder: Encoder, row: TokenRow) -> list[TokenView]:
    bundle = encoder.bundle
    added = () if bundle.backend is None else parse(bundle.backend).added_tokens
    special = {*bundle.facts.all_special_ids, *(token.id for token in added)}
    media = {n for span in row.spans for n in range(span.offset, span.offset + span.length)}
    offsets = [] if row.offsets is None else row.offsets.tolist()
    mask = [] if row.mask is None else row.mask.tolist()
    padded_from = len(offsets) if row.offsets is not None else len(row.ids)
    views = []
    for index, token_id in enumerate(row.ids.tolist()):
        if index >= padded_from:
            kind = TokenKind.PADDING
        elif index in media:
            kind = TokenKind.MEDIA
        else:
            kind = TokenKind.CONTROL if token_id in special else TokenKind.TEXT
        views.append(
            TokenView(
                index,
                token_id,
                encoder.tokenizer.decode([token_id]),
                (offsets[index][0], offsets[index][1]) if index < len(offsets) else None,
                kind,
                bool(index < len(mask) and mask[index]),
            )
        )
    return views


def _resized(bundle: ModelBundle, span: MediaSpan) -> tuple[int, int] | None:
    vision = bundle.config.get("vision_config")
    patch = vision.get("patch_size") if isinstance(vision, dict) else None
    if not isinstance(patch, int) or span.grid is None or len(span.grid) != 3:
        return None
    return span.grid[2] * patch, span.grid[1] * patch


def _budget(encoder: Encoder, item: TokenizedJob, row: TokenRow, rendered: int) -> BudgetSheet:
    params, facts = item.job.params, encoder.bundle.facts
    text = item.tokens.text
    return BudgetSheet(
        max_model_len=encoder.max_model_len,
        num_chars=None if text is None else len(text),
        max_chars=encoder.max_model_len * facts.max_chars_per_token,
        rendered_tokens=rendered,
        expanded_tokens=row.original_num_tokens,
        kept_tokens=len(row.ids),
        truncate_prompt_tokens=params.truncate_prompt_tokens,
        resolved_truncation=params.kept_tokens,
        truncation_side=params.truncation_side or f"{facts.truncation_side} (the tokenizer's)",
        truncated_left=row.truncated_left,
        truncated_right=row.truncated_right,
        max_output_tokens=params.max_output_tokens,
        max_tokens=row.max_tokens,
    )

"""A row's way through the encoder, kept for looking at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.engines.spec import added_tokens
from promptmill.pipeline.explain.budget import BudgetSheet, budget_sheet, cut_rules
from promptmill.pipeline.explain.text import Segment, TokenKind, TokenView, segments
from promptmill.pipeline.intake import Intake
from promptmill.pipeline.steps import Job
from promptmill.pipeline.tokenize import TextJob
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import RowError, Stage
from promptmill.schemas.media import MediaSpan
from promptmill.schemas.request import RawRow, Reject, TokenRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A prompt, or the reason why there is none and how far it came."""

    custom_id: str
    prompt_index: int
    text: str | None = None
    """As rendered; None where the prompt came as ids, or was refused before."""
    row: TokenRow | None = None
    """As it would be stored; None where it did not come so far."""
    tokens: tuple[TokenView, ...] = ()
    segments: tuple[Segment, ...] = ()
    """Of the text, from start to end; () where no offsets tell."""
    sizes: tuple[tuple[int, int] | None, ...] = ()
    """Width and height that each media item was resized to, where patches tell."""
    budget: BudgetSheet | None = None
    rules: tuple[str, ...] = ()
    """What limits the prompt, and what each rule cut."""
    error: RowError | None = None


def explain_row(encoder: Encoder, raw: RawRow) -> list[Explanation]:
    """Every prompt of a row, in order; empty for a blank line."""
    rejects: list[Reject] = []
    jobs, _ = Intake(encoder.options, encoder.admit).take([raw], rejects)
    found = [_refused(reject.custom_id, reject.prompt_index, reject.error) for reject in rejects]
    found += [_explain_job(encoder, job) for job in jobs]
    return sorted(found, key=lambda one: one.prompt_index)


def _explain_job(encoder: Encoder, job: Job) -> Explanation:
    index, errors = job.request.place.prompt_index, list[RowError]()

    def refuse(job: Job, error: RowError, stage: Stage) -> None:
        error.stage = error.stage or stage
        errors.append(error)

    rendered = encoder.render([job], refuse)
    if not rendered:
        return _refused(job.request.custom_id, index, errors[0])
    (whole,) = encoder.tokenizer.encode([TextJob(rendered=rendered[0].rendered, params=job.params)])
    row = None
    for item in encoder.tokenize(rendered, refuse):
        row = encoder.settler.token_row(item)
        try:
            row = encoder.settler.settle(item)
        except RowError as error:
            errors.append(error)
    text = rendered[0].rendered.text if row is None else row.text
    tokens = () if row is None else tuple(_tokens(encoder, row))
    sheet = budget_sheet(
        job.params,
        encoder.bundle.facts,
        encoder.max_model_len,
        text=text,
        rendered_tokens=None if isinstance(whole, RowError) else whole.original_num_tokens,
        row=row,
    )
    return Explanation(
        custom_id=job.request.custom_id,
        prompt_index=index,
        text=text,
        row=row,
        tokens=tokens,
        segments=() if row is None else tuple(_segments(row, tokens)),
        sizes=() if row is None else tuple(_resized(encoder.bundle, span) for span in row.spans),
        budget=sheet,
        rules=tuple(cut_rules(sheet, job.params, job.request.budget, encoder.options)),
        error=errors[0] if errors else None,
    )


def _refused(custom_id: str | None, prompt_index: int, error: RowError) -> Explanation:
    return Explanation(custom_id=custom_id or "", prompt_index=prompt_index, error=error)


def _tokens(encoder: Encoder, row: TokenRow) -> Iterator[TokenView]:
    bundle, expander = encoder.bundle, encoder.media.expander
    added = () if bundle.backend is None else added_tokens(bundle.backend)
    special = {*bundle.facts.all_special_ids, *(token.id for token in added)}
    in_ids = expander is not None and not expander.family.in_encoder
    spans = row.spans if in_ids else ()
    media = {n for span in spans for n in range(span.offset, span.offset + span.length)}
    offsets = [] if row.offsets is None else row.offsets.tolist()
    mask = [] if row.mask is None else row.mask.tolist()
    padded_from = len(offsets) if row.offsets is not None else len(row.ids)
    ids = row.ids.tolist()
    pieces = {token_id: encoder.tokenizer.piece(token_id) for token_id in set(ids)}
    for index, token_id in enumerate(ids):
        if index >= padded_from:
            kind = TokenKind.PADDING
        elif index in media:
            kind = TokenKind.MEDIA
        else:
            kind = TokenKind.CONTROL if token_id in special else TokenKind.TEXT
        yield TokenView(
            index,
            token_id,
            pieces[token_id],
            (offsets[index][0], offsets[index][1]) if index < len(offsets) else None,
            kind,
            bool(index < len(mask) and mask[index]),
        )


def _segments(row: TokenRow, tokens: Sequence[TokenView]) -> Iterator[Segment]:
    if row.text is None or row.offsets is None:
        return
    cut_left, cut_right = bool(row.truncated_left), bool(row.truncated_right)
    yield from segments(len(row.text), tokens, cut_left=cut_left, cut_right=cut_right)


def _resized(bundle: ModelBundle, span: MediaSpan) -> tuple[int, int] | None:
    vision = bundle.config.get("vision_config")
    patch = vision.get("patch_size") if isinstance(vision, dict) else None
    if not isinstance(patch, int) or span.grid is None or len(span.grid) != 3:
        return None
    return span.grid[2] * patch, span.grid[1] * patch

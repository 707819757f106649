"""Every number that decided the length of a prompt, and the rules that cut it, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from promptmill.pipeline.params import TokenizeParams
from promptmill.schemas.bundle import TokenizerFacts
from promptmill.schemas.options import JobOptions
from promptmill.schemas.request import Budget, TokenRow


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSheet:
    """Lengths and limits; ids where nothing else is said."""

    max_model_len: int
    num_chars: int | None
    """Code points of the rendered text; None where the prompt came as ids."""
    max_chars: int
    """The character gate: more are never tokenized."""
    rendered_tokens: int | None
    """Of the rendered text, media not expanded; None where it was not tokenized."""
    expanded_tokens: int | None
    """Before any cut, media expanded; None where it did not come so far."""
    kept_tokens: int | None
    """As stored; None where nothing is."""
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


def budget_sheet(
    params: TokenizeParams,
    facts: TokenizerFacts,
    max_model_len: int,
    *,
    text: str | None,
    rendered_tokens: int | None,
    row: TokenRow | None,
) -> BudgetSheet:
    """The sheet of one prompt.

    Args:
        params: the rules that applied.
        facts: of the tokenizer.
        max_model_len: the context length.
        text: as rendered; None where the prompt came as ids.
        rendered_tokens: ids of it, before any cut.
        row: what is stored; None where the prompt was refused.
    """
    return BudgetSheet(
        max_model_len=max_model_len,
        num_chars=None if text is None else len(text),
        max_chars=max_model_len * facts.max_chars_per_token,
        rendered_tokens=rendered_tokens,
        expanded_tokens=None if row is None else row.original_num_tokens,
        kept_tokens=None if row is None else len(row.ids),
        truncate_prompt_tokens=params.truncate_prompt_tokens,
        resolved_truncation=params.kept_tokens,
        truncation_side=params.truncation_side or f"{facts.truncation_side} (the tokenizer's)",
        truncated_left=0 if row is None else row.truncated_left,
        truncated_right=0 if row is None else row.truncated_right,
        max_output_tokens=params.max_output_tokens,
        max_tokens=None if row is None else row.max_tokens,
    )


def cut_rules(
    sheet: BudgetSheet, params: TokenizeParams, given: Budget, options: JobOptions
) -> Iterator[str]:
    """What limits the prompt, where that comes from, and what each rule cut; a sentence each.

    Args:
        sheet: of the prompt.
        params: the rules that applied.
        given: what the row asks for itself.
        options: of the job.
    """
    keep = params.truncate_prompt_tokens
    yield from _character_gate(sheet, params)
    if keep is None:
        yield (
            "No truncation is asked for: the prompt must fit the context of "
            f"{sheet.max_model_len} ids."
        )
    else:
        yield from _truncation(sheet, params, _origin(given, options))
    if sheet.max_tokens is not None:
        left = sheet.max_model_len - (sheet.kept_tokens or 0)
        asked = params.max_output_tokens
        limit = "asked for" if asked is not None and asked <= left else "what the context leaves"
        yield f"Output: {sheet.max_tokens} ids, {limit}."


def _character_gate(sheet: BudgetSheet, params: TokenizeParams) -> Iterator[str]:
    if sheet.num_chars is None or sheet.num_chars <= sheet.max_chars:
        return
    said = f"Character gate: {sheet.num_chars} characters are more than {sheet.max_chars}, which "
    said += f"is what {sheet.max_model_len} ids can be of"
    if params.truncate_prompt_tokens is None:
        yield f"{said}: refused before it is tokenized."
    elif params.truncation_side is not None:
        yield f"{said}: the {params.truncation_side} side is cut before it is tokenized."
    else:
        yield f"{said}: the tokenizer cuts, as no side is named."


def _truncation(sheet: BudgetSheet, params: TokenizeParams, origin: str) -> Iterator[str]:
    asked, keeps = params.truncate_prompt_tokens, params.kept_tokens
    said = f"{origin}={asked}"
    if asked is not None and asked < 0:
        kept_free = "all of the context" if keeps == sheet.max_model_len else "the context less one"
        said += f" ({kept_free}: {keeps})"
    if sheet.kept_tokens is None:
        yield f"{said} was not reached."
        return
    cut = {"left": sheet.truncated_left, "right": sheet.truncated_right}
    if not any(cut.values()):
        yield f"{said} cuts nothing: {sheet.expanded_tokens} ids fit."
        return
    sides = " and ".join(f"{count} on the {side}" for side, count in cut.items() if count)
    how = (
        "the side was asked for, so special ids are cut like others"
        if params.truncation_side is not None
        else "no side was asked for, so the tokenizer's is cut and the special ids it adds are kept"
    )
    yield f"{said} keeps {sheet.kept_tokens} of {sheet.expanded_tokens} ids, cuts {sides}; {how}."
    if sheet.rendered_tokens != sheet.expanded_tokens:
        yield (
            f"It applied twice: to {sheet.rendered_tokens} ids before media were expanded, and to "
            "what they became."
        )


def _origin(given: Budget, options: JobOptions) -> str:
    """Where a truncation comes from, as it is written there."""
    if given.truncate_prompt_tokens is not None:
        return "The row's truncate_prompt_tokens"
    if options.truncate_prompt_tokens is not None:
        return "--truncate-prompt-tokens"
    return "--on-overlong truncate, so truncate_prompt_tokens"

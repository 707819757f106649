"""The output budget of requests that a library converts: its rule and its words.

The same as deepseek-recipe 0.2's `resolve_max_tokens`, whose objects do not come this far.
"""

from __future__ import annotations

from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.request import Answer


def resolve_answer(
    answer: Answer,
    *,
    num_tokens: int,
    max_model_len: int,
    asked: int | None = None,
    lowers: bool = False,
) -> int:
    """The `max_tokens` of a finished prompt.

    A number that is asked for is kept or refused; the default takes what is left, and at least 1.

    Args:
        answer: what the conversion settled.
        num_tokens: ids of the prompt, images expanded.
        max_model_len: the context length.
        asked: what is asked for where the row does not.
        lowers: lower a number that does not fit, as the server does, for prompts that ask to be
            cut to the context; the library knows no such wish.

    Raises:
        RowError: PROMPT_TOO_LONG where prompt and answer together do not fit.
    """
    wanted = answer.max_tokens if answer.max_tokens is not None else asked
    if lowers and wanted is not None and num_tokens < max_model_len:
        wanted = min(wanted, max_model_len - num_tokens)
    total = num_tokens + (wanted or 0)
    if total > max_model_len:
        raise RowError(
            ErrorCode.PROMPT_TOO_LONG,
            f"This model's maximum context length is {max_model_len} tokens. However, you "
            f"requested {total} tokens ({num_tokens} in the messages, {wanted or 0} in the "
            "completion). Please reduce the length of the messages or completion.",
            parameter="max_tokens" if wanted else "input_tokens",
            value=wanted or num_tokens,
            stage=Stage.FIT,
        )
    if wanted is not None:
        return wanted
    return max(1, min(answer.default_max_tokens, max_model_len - num_tokens))

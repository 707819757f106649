"""From a request's budget fields to TokenizeParams, and the output budget a prompt leaves.

Profile rule (vLLM 0.33.0): what each endpoint takes for the fields a row does not give
(`build_tok_params`), and how `max_tokens` is settled once the prompt's length is known.
"""

from __future__ import annotations

from promptmill.pipeline.params import TRUNCATE, TokenizeParams
from promptmill.schemas import profile
from promptmill.schemas.bundle import TokenizerFacts
from promptmill.schemas.errors import ErrorCode, RowError, Stage
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.options import JobOptions, OnOverlong, Task
from promptmill.schemas.request import Endpoint, Request, TokensPrompt


def tokenize_params(
    request: Request, options: JobOptions, max_model_len: int, facts: TokenizerFacts
) -> TokenizeParams:
    """The rules for one prompt: the row's fields, else the job's options, else the task's.

    Raises:
        RowError: INVALID_BUDGET where the fields contradict the context length.
    """
    budget, endpoint = request.budget, request.endpoint
    output, output_name = _output_budget(request, options)
    keep = budget.truncate_prompt_tokens
    if keep is None:
        keep = options.truncate_prompt_tokens
    if keep is None and options.on_overlong is OnOverlong.TRUNCATE:
        keep = -1
    if endpoint is Endpoint.CHAT and isinstance(request.prompt, TokensPrompt):
        keep = None  # ids that came with a chat body are used as they are
    special = budget.add_special_tokens
    return TokenizeParams(
        max_total_tokens=max_model_len,
        max_output_tokens=output,
        truncate_prompt_tokens=keep,
        truncation_side=budget.truncation_side or options.truncation_side,
        do_lower_case=facts.do_lower_case and _pools(request, options),
        add_special_tokens=(endpoint is not Endpoint.CHAT) if special is None else special,
        return_token_offsets=options.with_offsets,
        needs_detokenization=isinstance(request.prompt, TokensPrompt)
        and (options.with_text or (budget.echo and not budget.return_token_ids)),
        max_total_tokens_param="max_model_len",
        max_output_tokens_param=output_name,
    )


def _pools(request: Request, options: JobOptions) -> bool:
    return options.task is Task.POOLING or request.endpoint is Endpoint.EMBEDDING


def _output_budget(request: Request, options: JobOptions) -> tuple[int | None, str]:
    """`max_output_tokens` and the name messages call it by."""
    budget = request.budget
    if options.task is not Task.GENERATE or request.endpoint is Endpoint.EMBEDDING:
        return 0, "max_tokens"
    if request.endpoint is Endpoint.CHAT:
        if budget.max_completion_tokens is not None:
            return budget.max_completion_tokens, "max_completion_tokens"
        asked = budget.max_tokens if budget.max_tokens is not None else options.max_tokens
        return asked, "max_tokens"
    return _completion_tokens(request, options), "max_tokens"


def _completion_tokens(request: Request, options: JobOptions) -> int:
    for asked in (request.budget.max_tokens, options.max_tokens):
        if asked is not None:
            return asked
    return profile.COMPLETION_MAX_TOKENS


def resolve_max_tokens(
    request: Request,
    options: JobOptions,
    *,
    max_model_len: int,
    truncated_to: int | None,
    num_tokens: int,
    generation_defaults: JsonObject,
) -> int | None:
    """The output budget of a finished prompt, as the server's `get_max_tokens` settles it.

    Args:
        request: what was asked for.
        options: what is asked for where the row does not.
        max_model_len: the context length.
        truncated_to: `truncate_prompt_tokens`, any negative meaning the context length.
        num_tokens: ids of the prompt, media expanded.
        generation_defaults: from the model's generation config; its `max_tokens` stands in
            where the row asks for nothing.

    Returns:
        The smallest of what the context leaves and what was asked for; None where nothing is to
        be generated (pooling, train).

    Raises:
        RowError: PROMPT_TOO_LONG where the prompt alone is over the context length.
    """
    if options.task is not Task.GENERATE or request.endpoint is Endpoint.EMBEDDING:
        return None
    length = num_tokens
    if truncated_to is not None:
        length = min(length, max_model_len if truncated_to < 0 else truncated_to)
    if length > max_model_len:
        raise RowError(
            ErrorCode.PROMPT_TOO_LONG,
            f"Input length ({length}) exceeds model's maximum context length "
            f"({max_model_len}). Shorten the prompt, {TRUNCATE} or raise --max-model-len.",
            parameter="input_tokens",
            value=length,
            stage=Stage.FIT,
        )
    if request.endpoint is Endpoint.CHAT:
        asked, _ = _output_budget(request, options)
    else:
        asked = _completion_tokens(request, options)
    if asked is None:
        default = generation_defaults.get("max_tokens")
        asked = default if isinstance(default, int) else None
    room = max_model_len - length
    if asked is not None and asked < 0:
        raise RowError(
            ErrorCode.INVALID_BUDGET,
            f"max_tokens must be at least 1, got {asked}. Ask for some output, or for none given.",
            parameter="max_tokens",
            value=asked,
            stage=Stage.FIT,
        )
    return room if asked is None else min(room, asked)


def check_engine_limits(
    num_tokens: int,
    highest_id: int,
    lowest_id: int,
    *,
    max_model_len: int,
    max_token_id: int,
    generates: bool,
) -> None:
    """What the engine would refuse after rendering, in its order.

    Args:
        num_tokens: ids of the finished prompt.
        highest_id: largest id in it; anything where it is empty.
        lowest_id: smallest id in it; anything where it is empty.
        max_model_len: the context length.
        max_token_id: the larger of the tokenizer's and the model's last id.
        generates: at least one output id must fit behind the prompt.

    Raises:
        RowError: EMPTY_PROMPT, TOKEN_OUT_OF_VOCABULARY or PROMPT_TOO_LONG.
    """
    if num_tokens and (highest_id > max_token_id or lowest_id < 0):
        bad = highest_id if highest_id > max_token_id else lowest_id
        raise RowError(
            ErrorCode.TOKEN_OUT_OF_VOCABULARY,
            f"Token id {bad} is out of vocabulary: this model's ids are 0 to {max_token_id}. "
            "Check that the ids were made with this model's tokenizer.",
            value=bad,
            stage=Stage.FIT,
        )
    if num_tokens == 0:
        raise RowError(
            ErrorCode.EMPTY_PROMPT,
            "The decoder prompt cannot be empty: no ids are left. Give a prompt, or keep at least "
            "one id (truncate_prompt_tokens).",
            stage=Stage.FIT,
        )
    if num_tokens > max_model_len:
        raise RowError(
            ErrorCode.PROMPT_TOO_LONG,
            f"The decoder prompt (length {num_tokens}) is longer than the maximum model length of "
            f"{max_model_len}. Shorten the prompt, {TRUNCATE} or raise --max-model-len.",
            parameter="input_tokens",
            value=num_tokens,
            stage=Stage.FIT,
        )
    if generates and num_tokens == max_model_len:
        raise RowError(
            ErrorCode.PROMPT_TOO_LONG,
            f"The decoder prompt (length {num_tokens}) plus the number of requested output tokens "
            f"(at least 1) is longer than the maximum model length of {max_model_len}. Leave room "
            "for output: truncate to fewer tokens (truncate_prompt_tokens=-1 leaves one) or raise "
            "max_model_len.",
            parameter="input_tokens",
            value=num_tokens,
            stage=Stage.FIT,
        )

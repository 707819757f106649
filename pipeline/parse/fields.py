"""The fields of the server's request models and what each accepts. Profile rule.

Messages, tools and prompts have modules of their own; unknown fields are allowed, as there.
`tool_choice` is not checked at all: it does not change a prompt, so it never rejects a row.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from promptmill.pipeline.parse.coerce import (
    INT64,
    Check,
    Mismatch,
    boolean,
    either,
    integer,
    list_of,
    mapping,
    mapping_of,
    nullable,
    number,
    one_of,
    record,
    string,
    within,
)
from promptmill.pipeline.parse.formats import (
    cache_salt,
    logprobs_count,
    repetition_detection,
    response_format,
    structured_outputs,
    thinking_budget,
)
from promptmill.schemas import profile
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.json_types import Json, JsonObject

_MAYBE_BOOLEAN: Final = nullable(boolean)
_MAYBE_INTEGER: Final = nullable(integer)
_MAYBE_NUMBER: Final = nullable(number)
_MAYBE_STRING: Final = nullable(string)
_MAYBE_MAPPING: Final = nullable(mapping)
_MAYBE_IDS: Final = nullable(list_of(integer))


_COMMON: Final[dict[str, Check]] = {
    "model": _MAYBE_STRING,
    "user": _MAYBE_STRING,
    "truncation_side": nullable(one_of("left", "right")),
    "add_special_tokens": boolean,
    "cache_salt": nullable(cache_salt),
    "priority": within(*INT64),
    "request_id": string,
}

_GENERATING: Final[dict[str, Check]] = _COMMON | {
    "truncate_prompt_tokens": nullable(within(-1, INT64[1])),
    "max_tokens": _MAYBE_INTEGER,
    "seed": nullable(within(*INT64)),
    "frequency_penalty": _MAYBE_NUMBER,
    "presence_penalty": _MAYBE_NUMBER,
    "repetition_penalty": _MAYBE_NUMBER,
    "length_penalty": number,
    "temperature": _MAYBE_NUMBER,
    "top_p": _MAYBE_NUMBER,
    "top_k": _MAYBE_INTEGER,
    "min_p": _MAYBE_NUMBER,
    "min_tokens": integer,
    "logit_bias": nullable(mapping_of(number)),
    "stop": nullable(either(string, list_of(string, max_length=profile.STOP_STRINGS))),
    "stop_token_ids": _MAYBE_IDS,
    "include_stop_str_in_output": boolean,
    "ignore_eos": boolean,
    "bad_words": list_of(string),
    "allowed_token_ids": _MAYBE_IDS,
    "prompt_logprobs": nullable(logprobs_count),
    "logprob_token_ids": _MAYBE_IDS,
    "response_format": nullable(response_format),
    "structured_outputs": nullable(structured_outputs),
    "thinking_token_budget": nullable(thinking_budget),
    "repetition_detection": nullable(repetition_detection),
    "use_beam_search": boolean,
    "watermarking": _MAYBE_BOOLEAN,
    "skip_special_tokens": _MAYBE_BOOLEAN,
    "spaces_between_special_tokens": boolean,
    "stream": _MAYBE_BOOLEAN,
    "stream_options": nullable(
        record({}, dict.fromkeys(("include_usage", "continuous_usage_stats"), _MAYBE_BOOLEAN))
    ),
    "stream_interval": nullable(within(1)),
    "session_id": _MAYBE_STRING,
    "return_tokens_as_token_ids": _MAYBE_BOOLEAN,
    "return_token_ids": _MAYBE_BOOLEAN,
    "return_token_offsets": _MAYBE_BOOLEAN,
    "return_weight_versions": boolean,
    "routed_experts_prompt_start": within(0),
    "mm_payload": one_of("tensors", "none"),
    "return_mm_kwargs": _MAYBE_BOOLEAN,
    "kv_transfer_params": _MAYBE_MAPPING,
    "ec_transfer_params": _MAYBE_MAPPING,
    "vllm_xargs": nullable(
        mapping_of(either(string, integer, number, list_of(either(string, integer, number))))
    ),
}

_TEMPLATED: Final[dict[str, Check]] = {
    "add_generation_prompt": boolean,
    "continue_final_message": boolean,
    "chat_template": _MAYBE_STRING,
    "chat_template_kwargs": _MAYBE_MAPPING,
    "mm_processor_kwargs": _MAYBE_MAPPING,
    "media_io_kwargs": nullable(mapping_of(mapping)),
}

CHAT: Final[dict[str, Check]] = (
    _GENERATING
    | _TEMPLATED
    | {
        "max_completion_tokens": _MAYBE_INTEGER,
        "n": _MAYBE_INTEGER,
        "logprobs": _MAYBE_BOOLEAN,
        "top_logprobs": nullable(logprobs_count),
        "echo": boolean,
        "reasoning_effort": nullable(
            one_of("none", "minimal", "low", "medium", "high", "xhigh", "max")
        ),
        "include_reasoning": boolean,
        "parallel_tool_calls": _MAYBE_BOOLEAN,
        "documents": nullable(list_of(mapping_of(string))),
        "return_prompt_text": _MAYBE_BOOLEAN,
    }
)
"""`/v1/chat/completions`."""

COMPLETION: Final[dict[str, Check]] = _GENERATING | {
    "n": integer,
    "logprobs": nullable(logprobs_count),
    "echo": _MAYBE_BOOLEAN,
    "suffix": _MAYBE_STRING,
}
"""`/v1/completions`."""

EMBEDDING: Final[dict[str, Check]] = _COMMON | {
    "truncate_prompt_tokens": nullable(within(-1)),
    "padding": nullable(one_of("max_length", "do_not_pad")),
    "mm_processor_kwargs": _MAYBE_MAPPING,
    "dimensions": _MAYBE_INTEGER,
    "use_activation": _MAYBE_BOOLEAN,
    "encoding_format": one_of("float", "base64", "bytes", "bytes_only"),
    "embed_dtype": one_of("float32", "float16", "bfloat16", "fp8_e4m3", "fp8_e5m2"),
    "endianness": one_of("native", "big", "little"),
}
"""`/v1/embeddings` of texts or ids."""

EMBEDDING_CHAT: Final[dict[str, Check]] = EMBEDDING | _TEMPLATED
"""`/v1/embeddings` of conversations."""

PROMPTS: Final = frozenset({"messages", "tools", "prompt", "input", "custom_id", "id"})
"""Keys of a body that are no fields of its own to check or to pass on."""


class Given(NamedTuple):
    """The fields of a body that are not null, `PROMPTS` left out."""

    known: JsonObject
    """Fields of the endpoint, as the server would work with them."""
    unknown: JsonObject
    """All others, as they are."""


def check_fields(body: JsonObject, accepted: dict[str, Check]) -> Given:
    """The fields of a body, each checked alone.

    Raises:
        RowError: INVALID_REQUEST with the field as parameter.
    """
    known: JsonObject = {}
    unknown: JsonObject = {}
    for name, value in body.items():
        check = accepted.get(name)
        if check is None:
            if value is not None and name not in PROMPTS:
                unknown[name] = value
            continue
        try:
            checked = check(value)
        except Mismatch as mismatch:
            raise _refused(name, value, mismatch) from mismatch
        if checked is not None:
            known[name] = checked
    return Given(known, unknown)


_SHORT: Final = 32


def _refused(name: str, value: Json, mismatch: Mismatch) -> RowError:
    scalar = None if isinstance(value, list | dict) else value
    if isinstance(scalar, str) and len(scalar) > _SHORT:
        scalar = None
    if scalar is not None or value is None:
        shown = repr(scalar)
    elif isinstance(value, list):
        shown = "a list"
    else:
        shown = "an object" if isinstance(value, dict) else "a longer string"
    return RowError(
        ErrorCode.INVALID_REQUEST,
        f"{name} must be {mismatch}, not {shown}.",
        parameter=name,
        value=scalar,
    )

"""A token row, read back from a part, as input of a vLLM engine or server.

    for row in table.to_pylist():
        llm.generate(tokens_prompt(row))                      # TokensPrompt
        client.post("/inference/v1/generate", json=generate_request(row))

Stored ids are expanded: a media item has all the ids that the model will see. Whoever hands over
the media itself must give collapsed ids instead, with what the template wrote for an item. Profile
rule: the fields are those of vLLM 0.33.0's `TokensPrompt`, `GenerateRequest` and `SamplingParams`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, TypedDict, cast

from promptmill.schemas.columns import with_vllm_names
from promptmill.schemas.json_types import Json, JsonObject


class StoredSpan(TypedDict):
    """What is needed of an entry of `mm_placeholders`."""

    modality: str
    offset: int
    length: int
    hash: str


class StoredRow(TypedDict, total=False):
    """What is needed of a row."""

    custom_id: str
    prompt_token_ids: Sequence[int]
    prompt: str | None
    max_tokens: int | None
    mm_placeholders: Sequence[StoredSpan]
    request: str


Placeholders: TypeAlias = Mapping[str, Sequence[int]]
"""By modality, the ids that stand for one item before expansion, such as one image pad id."""

_SAMPLING: Final = (
    "n",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "stop",
    "stop_token_ids",
    "bad_words",
    "include_stop_str_in_output",
    "ignore_eos",
    "min_tokens",
    "prompt_logprobs",
    "logprob_token_ids",
    "logit_bias",
    "allowed_token_ids",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "thinking_token_budget",
    "repetition_detection",
    "watermarking",
    "stream_interval",
    "routed_experts_prompt_start",
)
"""Fields that requests and sampling parameters have under one name."""

_ENVELOPE: Final = (
    "model",
    "cache_salt",
    "priority",
    "stream",
    "stream_options",
    "return_token_ids",
    "kv_transfer_params",
    "ec_transfer_params",
)
"""Fields that a generate request has beside its sampling parameters."""


def collapse(
    ids: Sequence[int], spans: Sequence[StoredSpan], placeholders: Placeholders
) -> list[int]:
    """Expanded ids with every media span replaced by the ids of one placeholder.

    Args:
        ids: of a whole row.
        spans: its `mm_placeholders`, in any order; neighbours may share an id.
        placeholders: what an item of each modality is replaced by; () leaves nothing.

    Raises:
        ValueError: a modality of the row is not in `placeholders`.
    """
    collapsed: list[int] = []
    position = 0
    for span in sorted(spans, key=lambda span: span["offset"]):
        if span["modality"] not in placeholders:
            raise ValueError(
                f"The row has media of modality {span['modality']}: name the ids that stand for "
                f"one item of it, such as {{{span['modality']!r}: [pad_id]}}."
            )
        collapsed += ids[position : span["offset"]]
        collapsed += placeholders[span["modality"]]
        position = max(position, span["offset"] + span["length"])
    return [*collapsed, *ids[position:]]


def tokens_prompt(
    row: Mapping[str, object], placeholders: Placeholders | None = None
) -> dict[str, object]:
    """A row as vLLM's `TokensPrompt`, ids collapsed; add `multi_modal_data` where it has media.

    Args:
        row: in either dialect of column names.
        placeholders: see `collapse`; needed for rows with media.

    Raises:
        ValueError: see `collapse`.
    """
    stored = cast(StoredRow, with_vllm_names(row))
    ids = collapse(stored["prompt_token_ids"], stored["mm_placeholders"], placeholders or {})
    prompt: dict[str, object] = {"prompt_token_ids": ids}
    if (text := stored.get("prompt")) is not None:
        prompt["prompt"] = text
    if (salt := json.loads(stored["request"]).get("cache_salt")) is not None:
        prompt["cache_salt"] = salt
    return prompt


def generate_request(row: Mapping[str, object]) -> JsonObject:
    """A row as the body of vLLM's `/inference/v1/generate`, ids expanded.

    Media go by hash and place only: the server must hold the processed items in its cache.

    Args:
        row: in either dialect of column names.

    Raises:
        ValueError: the row asks for beam search, which this endpoint does not have.
    """
    stored = cast(StoredRow, with_vllm_names(row))
    asked: JsonObject = json.loads(stored["request"])
    if asked.get("use_beam_search"):
        raise ValueError(f"Row {stored['custom_id']} asks for beam search; generate has none.")
    body = _given(asked, _ENVELOPE) | {
        "request_id": stored["custom_id"],
        "token_ids": [*stored["prompt_token_ids"]],
        "sampling_params": _sampling(asked, stored.get("max_tokens")),
    }
    if stored["mm_placeholders"]:
        body["features"] = _features(stored["mm_placeholders"])
    return body


def media_overlap(spans: Sequence[StoredSpan]) -> bool:
    """Whether media of a row share ids, as neighbours of Gemma 3 do: the endpoint refuses such a
    body, where serving the chat itself does not."""
    end = 0
    for span in sorted(spans, key=lambda span: span["offset"]):
        if span["offset"] < end:
            return True
        end = span["offset"] + span["length"]
    return False


def _given(asked: JsonObject, names: Sequence[str]) -> JsonObject:
    return {name: asked[name] for name in names if asked.get(name) is not None}


def _sampling(asked: JsonObject, max_tokens: int | None) -> JsonObject:
    params = _given(asked, _SAMPLING)
    if max_tokens is not None:
        params["max_tokens"] = max_tokens
    logprobs = asked.get("logprobs")
    if logprobs is True:  # a chat; completions give the number itself
        logprobs = None if asked.get("logprob_token_ids") else asked.get("top_logprobs", 0)
    if logprobs is not None and logprobs is not False:
        params["logprobs"] = logprobs
    if structured := _structured_outputs(asked):
        params["structured_outputs"] = structured
    extra = _object(asked.get("vllm_xargs"))
    extra |= _given(asked, ("kv_transfer_params", "ec_transfer_params"))
    if extra:
        params["extra_args"] = extra
    return params


def _structured_outputs(asked: JsonObject) -> JsonObject:
    """`structured_outputs`, with what `response_format` says put over it."""
    given = _object(asked.get("structured_outputs"))
    match wanted := asked.get("response_format"):
        case {"type": "json_object"}:
            given["json_object"] = True
        case {"type": "json_schema", "json_schema": {"schema": schema}}:
            given["json"] = schema
        case {"type": "structural_tag"}:
            given["structural_tag"] = json.dumps(wanted)
    return given


def _object(value: Json) -> JsonObject:
    return dict(value) if isinstance(value, dict) else {}


def _features(spans: Sequence[StoredSpan]) -> JsonObject:
    hashes: dict[str, list[Json]] = {}
    places: dict[str, list[Json]] = {}
    for span in spans:
        hashes.setdefault(span["modality"], []).append(span["hash"])
        place: JsonObject = {"offset": span["offset"], "length": span["length"]}
        places.setdefault(span["modality"], []).append(place)
    return {"mm_hashes": dict(hashes), "mm_placeholders": dict(places)}

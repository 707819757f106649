"""Sampling defaults that a model's generation config sets for rows that do not say otherwise."""

from __future__ import annotations

from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.json_types import Json, JsonObject

_NAMES = {
    "max_new_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "repetition_penalty",
}
"""generation_config.json's name -> the request's (profile rule)."""


def generation_defaults(bundle: ModelBundle) -> JsonObject:
    """The request fields that the server would fill in, under the request's names.

    `stop_token_ids` are the generation config's EOS ids and the tokenizer's, in ascending order;
    where the model has no generation config, config.json's EOS ids take its place.

    Example:
        >>> generation_defaults(bundle)  # of Qwen3
        {'temperature': 0.6, 'top_p': 0.95, 'top_k': 20, 'stop_token_ids': [151643, 151645]}
    """
    config = bundle.generation_config
    defaults: JsonObject = {
        ours: config[theirs] for theirs, ours in _NAMES.items() if _is_number(config.get(theirs))
    }
    sources = (config,) if config else (bundle.config, bundle.text_config)
    named = next((ids for source in sources if (ids := _ids(source.get("eos_token_id")))), [])
    stops = {*named, *_ids(bundle.facts.eos_token_id)}
    if stops:
        defaults["stop_token_ids"] = list[Json](sorted(stops))
    return defaults


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _ids(value: Json) -> list[int]:
    values = value if isinstance(value, list) else [value]
    return [item for item in values if isinstance(item, int) and not isinstance(item, bool)]

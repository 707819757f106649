"""The context length: derived from a model's files as the server does, or given.

Profile rule (vLLM 0.33.0, `config/model.py`). Lengths are ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from promptmill.schemas import profile
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.json_types import Json, JsonObject

_LENGTH_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
_UNSCALED_ROPE_TYPES = frozenset(
    {"su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling"}
)
"""Rope types whose config already names the scaled length."""
_NO_LIMIT = 1e18
"""Tokenizers write 1e30 where they know no limit."""


@dataclass(frozen=True, slots=True)
class ContextLength:
    """What a model's files say about its context length."""

    derived: int
    """Taken where no length is given."""
    largest: int | None
    """The largest that a server accepts without its override; None: any."""
    origin: str
    """Where `largest` comes from, for messages."""


def derive_context_length(
    text_config: JsonObject,
    *,
    model_type: str = "",
    tokenizer_max_length: Json = None,
    sentence_max_length: Json = None,
) -> ContextLength:
    """Derive the context length from a model's files.

    Args:
        text_config: the language model's part of config.json.
        model_type: of the whole model.
        tokenizer_max_length: `model_max_length` of tokenizer_config.json.
        sentence_max_length: `max_seq_length` of a sentence-transformers config.
    """
    named = {key: n for key in _LENGTH_KEYS if (n := _number(text_config.get(key))) is not None}
    origin = min(named, key=lambda key: named[key], default="assumed")
    length = named.get(origin, profile.DEFAULT_CONTEXT_LENGTH)
    if (limit := _number(tokenizer_max_length)) is not None and limit < length:
        length, origin = limit, "model_max_length of the tokenizer"
    ropes = list(_rope_parameters(text_config))
    if "gemma3" not in model_type and "gemma3" not in str(text_config.get("model_type")):
        length *= _rope_factor(ropes)
    if (limit := _number(sentence_max_length)) is not None:
        length, origin = limit, "max_seq_length of sentence-transformers"
    derived = length
    if any(_rope_type(rope) == "longrope" for rope in ropes):
        original = [
            _number(c.get("original_max_position_embeddings")) for c in (text_config, *ropes)
        ]
        derived = next((n for n in original if n is not None), length)
    largest = max(length, named.get("model_max_length", 0))
    return ContextLength(int(derived), int(largest) if origin != "assumed" else None, origin)


def length_warnings(length: ContextLength, given: int | None) -> tuple[str, ...]:
    """What the user should know about the length that is used.

    Args:
        length: as derived.
        given: --max-model-len.
    """
    if given is None:
        if length.largest is not None:
            return ()
        return (
            f"config.json names no context length: {length.derived} is assumed. Give "
            "--max-model-len.",
        )
    if length.largest is None or given <= length.largest:
        return ()
    return (
        f"--max-model-len {given} is greater than {length.largest}, the length that the model's "
        f"files allow ({length.origin}). Prompts are prepared for {given}; a server refuses such "
        "a length unless VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 is set there.",
    )


def check_max_model_len(bundle: ModelBundle, given: int | None) -> int:
    """The context length of a run: --max-model-len, else the derived one.

    A given length counts as the server's override: nothing is computed at those positions here.
    The bundle's warnings say where a server would refuse it.
    """
    return bundle.derived_max_model_len if given is None else given


def _rope_parameters(text_config: JsonObject) -> Iterator[JsonObject]:
    """The rope settings: one set, or one for each layer type."""
    for key in ("rope_parameters", "rope_scaling"):
        found = text_config.get(key)
        if isinstance(found, dict) and found:
            nested = [value for value in found.values() if isinstance(value, dict)]
            yield from nested or [found]
            return


def _rope_type(rope: JsonObject) -> str:
    return str(rope.get("rope_type", rope.get("type", "default")))


def _rope_factor(ropes: list[JsonObject]) -> float:
    """The scaling factor: of the last set that has one, as all layers are assumed alike."""
    factor = 1.0
    for rope in ropes:
        if _rope_type(rope) not in _UNSCALED_ROPE_TYPES:
            factor = _number(rope.get("factor")) or factor
    return factor


def _number(value: Json) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 < value < _NO_LIMIT else None

"""The context length that a model's files give."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptmill.pipeline.model.length import (
    ContextLength,
    check_max_model_len,
    derive_context_length,
    length_warnings,
)
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.json_types import Json, JsonObject

KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
UNSCALED = ("su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling")


@given(st.dictionaries(st.sampled_from(KEYS), st.integers(1, 10**7), min_size=1))
def test_the_smallest_key_is_taken(config: dict[str, int]) -> None:
    length = derive_context_length(dict(config))
    assert length.derived == min(config.values())
    assert config[length.origin] == length.derived


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_smaller_tokenizer_limit_wins(config: int, tokenizer: int) -> None:
    length = derive_context_length(
        {"max_position_embeddings": config}, tokenizer_max_length=tokenizer
    )
    assert length.derived == min(config, tokenizer)


@pytest.mark.parametrize("limit", [1e30, 1000000000000000019884624838656, None, "many", True, 0])
def test_a_tokenizer_without_a_limit_sets_none(limit: Json) -> None:
    config: JsonObject = {"max_position_embeddings": 100}
    assert derive_context_length(config, tokenizer_max_length=limit).derived == 100


@given(
    st.integers(1, 10**6),
    st.sampled_from((*UNSCALED, "linear", "dynamic", "default", "mrope")),
    st.floats(1, 64),
    st.sampled_from(("rope_scaling", "rope_parameters")),
    st.sampled_from(("type", "rope_type")),
    st.booleans(),
)
def test_the_rope_factor_scales_what_is_not_scaled_already(
    base: int, kind: str, factor: float, key: str, type_key: str, nested: bool
) -> None:
    rope: JsonObject = {type_key: kind, "factor": factor}
    config: JsonObject = {
        "max_position_embeddings": base,
        key: {"full_attention": rope, "sliding_attention": {type_key: "default"}}
        if nested
        else rope,
    }
    wanted = base if kind in UNSCALED else int(base * factor)
    assert derive_context_length(config).derived == wanted
    assert derive_context_length(config, model_type="gemma3").derived == base
    assert derive_context_length({**config, "model_type": "gemma3_text"}).derived == base


def test_a_factor_is_applied_after_the_tokenizer_limit() -> None:
    config: JsonObject = {
        "max_position_embeddings": 8192,
        "rope_scaling": {"rope_type": "linear", "factor": 2.5},
    }
    assert derive_context_length(config, tokenizer_max_length=4096).derived == 10240


def test_longrope_defaults_to_the_original_length_but_allows_the_long_one() -> None:
    config: JsonObject = {
        "max_position_embeddings": 131072,
        "original_max_position_embeddings": 4096,
        "rope_scaling": {"type": "longrope", "short_factor": [1.0], "long_factor": [2.0]},
    }
    length = derive_context_length(config)
    assert (length.derived, length.largest) == (4096, 131072)
    inside: JsonObject = {
        "max_position_embeddings": 131072,
        "rope_parameters": {"rope_type": "longrope", "original_max_position_embeddings": 4096},
    }
    assert derive_context_length(inside).derived == 4096


def test_sentence_transformers_replace_the_length() -> None:
    config: JsonObject = {"max_position_embeddings": 512}
    assert derive_context_length(config, sentence_max_length=8192).derived == 8192
    assert derive_context_length(config, sentence_max_length=128).derived == 128
    assert derive_context_length(config, sentence_max_length=None).derived == 512


def test_nothing_named_is_2048_and_said_only_where_it_is_used() -> None:
    length = derive_context_length({"hidden_size": 64})
    assert length == ContextLength(2048, None, "assumed")
    (warning,) = length_warnings(length, None)
    assert "2048 is assumed" in warning
    assert "--max-model-len" in warning
    assert length_warnings(length, 10**6) == ()


def test_a_greater_length_names_both_numbers_and_the_override() -> None:
    length = derive_context_length({"max_position_embeddings": 4096})
    assert length_warnings(length, None) == length_warnings(length, 4096) == ()
    (warning,) = length_warnings(length, 8192)
    for said in ("8192", "4096", "max_position_embeddings", "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1"):
        assert said in warning


def test_the_models_own_model_max_length_allows_more() -> None:
    config: JsonObject = {"max_position_embeddings": 4096, "model_max_length": 131072}
    length = derive_context_length(config)
    assert length.derived == 4096
    assert length_warnings(length, 131072) == ()
    assert "131072" in length_warnings(length, 131073)[0]


def test_a_given_length_is_taken(load: Callable[..., ModelBundle], tiny_models: Path) -> None:
    bundle = load(tiny_models / "chatml", max_model_len=8192)
    assert check_max_model_len(bundle, 8192) == 8192
    assert check_max_model_len(bundle, None) == bundle.derived_max_model_len == 4096
    assert any("8192" in warning and "4096" in warning for warning in bundle.warnings)

"""Sampling defaults from the generation config."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from promptmill.pipeline.model.generation import generation_defaults
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.json_types import JsonObject


@pytest.fixture
def chatml(load: Callable[..., ModelBundle], tiny_models: Path) -> ModelBundle:
    """Its tokenizer's EOS is id 2."""
    bundle = load(tiny_models / "chatml")
    assert bundle.generation_config == {}
    return bundle


def test_all_of_a_generation_config(
    load: Callable[..., ModelBundle], make_folder: Callable[..., Path]
) -> None:
    config = {
        "max_new_tokens": 512,
        "temperature": 0.6,
        "top_p": 0.95,
        "top_k": 20,
        "min_p": 0.05,
        "repetition_penalty": 1.05,
        "eos_token_id": [7, 2, 0],
        "do_sample": True,
        "max_length": 99,
        "transformers_version": "5.0.0",
    }
    bundle = load(make_folder({"generation_config.json": config}))
    assert generation_defaults(bundle) == {
        "max_tokens": 512,
        "temperature": 0.6,
        "top_p": 0.95,
        "top_k": 20,
        "min_p": 0.05,
        "repetition_penalty": 1.05,
        "stop_token_ids": [0, 2, 7],
    }


@pytest.mark.parametrize(
    ("generation", "config", "eos", "wanted"),
    [
        ({}, {}, 2, {"stop_token_ids": [2]}),
        ({}, {}, None, {}),
        ({"temperature": None, "top_p": 1.0}, {}, None, {"top_p": 1.0}),
        ({"top_k": True, "min_p": "x", "eos_token_id": None}, {}, None, {}),
        ({"eos_token_id": 5}, {"eos_token_id": 9}, 2, {"stop_token_ids": [2, 5]}),
        ({"top_k": 0}, {"eos_token_id": 9}, 2, {"top_k": 0, "stop_token_ids": [2]}),
        ({}, {"eos_token_id": [9, 8]}, 2, {"stop_token_ids": [2, 8, 9]}),
        (
            {},
            {"eos_token_id": None, "text_config": {"eos_token_id": 6}},
            2,
            {"stop_token_ids": [2, 6]},
        ),
        ({}, {"temperature": 0.5}, None, {}),
    ],
)
def test_values_and_stop_ids(
    chatml: ModelBundle,
    generation: JsonObject,
    config: JsonObject,
    eos: int | None,
    wanted: JsonObject,
) -> None:
    facts = replace(chatml.facts, eos_token_id=eos)
    bundle = replace(chatml, facts=facts, config=config, generation_config=generation)
    assert generation_defaults(bundle) == wanted

"""Facts of tokenizers as the server derives them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.options import Side, Task

Load: TypeAlias = Callable[..., ModelBundle]


def golden_infos(shared: Path) -> list[dict[str, Any]]:
    text = (shared / "golden" / "serving.jsonl").read_text(encoding="utf-8")
    cases = (json.loads(line) for line in text.split("\n") if line)  # U+2028 ends no line
    return [case for case in cases if case["input"]["kind"] == "tokenizer_info"]


def test_golden_tokenizer_infos(load: Load, shared: Path, models: Path) -> None:
    cases = golden_infos(shared)
    assert cases
    for case in cases:
        given, wanted = case["input"], case["expected"]["result"]
        mode = given.get("engine", {}).get("tokenizer_mode", "auto")
        bundle = load(models / given["model_dir"], tokenizer_mode=mode)
        facts = bundle.facts
        found = {
            "is_fast": facts.is_fast,
            "vocab_size": facts.vocab_size,
            "len": facts.length,
            "max_token_id": facts.max_token_id,
            "max_chars_per_token": facts.max_chars_per_token,
            "truncation_side": str(facts.truncation_side),
            "pad_token_id": facts.pad_token_id,
            "bos_token_id": facts.bos_token_id,
            "eos_token_id": facts.eos_token_id,
            "n_special": len(facts.all_special_ids),
            "model_vocab_size": bundle.model_vocab_size,
            # The reference run took the class's name from a base class, which is typing.Protocol
            # for the server's MistralTokenizer.
            "tokenizer_class": "Protocol" if mode == "mistral" else facts.tokenizer_class,
        }
        assert found == {name: wanted[name] for name in found}, case["id"]


@pytest.mark.parametrize(
    ("model", "mode", "max_chars", "max_id", "model_vocab"),
    [
        ("llama2", "auto", 16, 31999, 32000),
        ("deepseek_v3", "auto", 128, 128814, 129280),
        ("deepseek_recipe_v41", "deepseek_v41", 128, 129279, None),
        ("media/llava15", "auto", 16, 32001, 32064),
        ("media/internvl_chat", "auto", 128, 151671, 151936),
    ],
)
def test_measured_facts(
    load: Load, models: Path, model: str, mode: str, max_chars: int, max_id: int, model_vocab: int
) -> None:
    bundle = load(models / model, tokenizer_mode=mode)
    assert bundle.facts.max_chars_per_token == max_chars
    assert bundle.facts.max_token_id == max_id
    assert bundle.model_vocab_size == model_vocab


@pytest.mark.soak
@pytest.mark.parametrize(
    ("model", "max_chars", "model_vocab"),
    [
        ("gemma3", 31, 262144),
        ("gptoss", 128, 201088),
        ("media/gemma4", 31, 262400),
        ("media/qwen2_5_omni", 128, 151936),
    ],
)
def test_measured_facts_of_slow_loaders(
    load: Load, models: Path, model: str, max_chars: int, model_vocab: int
) -> None:
    bundle = load(models / model)
    assert bundle.facts.max_chars_per_token == max_chars
    assert bundle.model_vocab_size == model_vocab


def test_the_side_follows_the_task_not_the_file(load: Load, tiny_models: Path) -> None:
    sides = {
        task: load(tiny_models / "left", task=task).facts.truncation_side
        for task in (Task.GENERATE, Task.POOLING, Task.TRAIN)
    }
    assert sides == {
        Task.GENERATE: Side.LEFT,
        Task.POOLING: Side.RIGHT,
        Task.TRAIN: Side.RIGHT,
    }


def test_special_tokens_are_named_as_templates_see_them(load: Load, models: Path) -> None:
    assert load(models / "qwen3").special_tokens_map == {
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
    }
    assert load(models / "llava15").special_tokens_map["image_token"] == "<image>"


def test_a_bare_deepseek_release_has_its_bos_and_eos(load: Load, models: Path) -> None:
    facts = load(models / "deepseek_recipe_v41", tokenizer_mode="deepseek_v41").facts
    assert (facts.bos_token_id, facts.eos_token_id) == (0, 1)

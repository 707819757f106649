"""The start-up probe: no false alarm on models as they are, and loud where ids are useless."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import Whitespace

from promptmill.pipeline.model.probe import probe_model
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import ErrorCode, JobError, RowError
from promptmill.schemas.json_types import JsonObject

Load: TypeAlias = Callable[..., ModelBundle]


def test_models_as_they_are_pass(load: Load, models: Path, tiny_models: Path) -> None:
    folders = [models / name for name in ("qwen3", "llama2", "llava15", "deepseek_v3")]
    for folder in (*folders, *sorted(tiny_models.iterdir())):
        assert probe_model(load(folder)) == (), folder


@pytest.mark.soak
def test_all_models_pass_but_the_broken_one(load: Load, models: Path) -> None:
    paths = sorted((*models.glob("*/config.json"), *models.glob("media/*/config.json")))
    assert len(paths) > 10
    for path in paths:
        if path.parent.name in ("deepseek_v3_llamacls", "mistral_spm"):
            continue
        warnings = probe_model(load(path.parent))
        # Three made-up folders have templates of models with more control tokens.
        if path.parent.name not in ("deepseek_ocr", "deepseek_vl2", "idefics3"):
            assert warnings == (), path


def test_a_class_that_does_not_fit_its_tokenizer_is_refused(load: Load, models: Path) -> None:
    with pytest.raises(JobError, match="Chinese") as error:
        probe_model(load(models / "deepseek_v3_llamacls"))
    assert "LlamaTokenizer" in str(error.value)
    assert "English" not in str(error.value)


def test_a_tokenizer_of_one_language_is_only_warned_about(load: Load, tiny_models: Path) -> None:
    letters = "abcdefghijklmnopqrstuvwxyzTP0123456789.,:'(){}[]<>=!#fF"
    tokenizer = Tokenizer(BPE({c: i for i, c in enumerate(dict.fromkeys(letters))}, []))
    tokenizer.pre_tokenizer = Whitespace()
    bundle = replace(
        load(tiny_models / "notemplate"), backend=tokenizer.to_str(), special_tokens_map={}
    )
    lost, changed = probe_model(bundle)
    assert "Chinese" in lost
    assert "English" not in lost
    assert "English" in changed  # without a decoder, tokens are joined by spaces


def test_a_foreign_template_is_told_with_its_spellings(load: Load, models: Path) -> None:
    qwen = load(models / "qwen3")
    (warning,) = probe_model(load(models / "llama2"), template=qwen.chat_templates["default"])
    assert "<|im_start|>, which" in warning or "<|im_end|>, <|im_start|>, which" in warning
    gemma = "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ m.content }}{% endfor %}"
    (warning,) = probe_model(qwen, template=gemma)
    assert "writes <start_of_turn>, which" in warning
    assert probe_model(replace(qwen, chat_templates={"default": gemma})) == (warning,)


@pytest.mark.parametrize(
    "template",
    [
        "{# written for <|eot_id|> models #}x",
        "{% if a < b and c > d %}<tools></tools><tool_call>{{ '<think>' }}{% endif %}",
        "{{ messages[INDEX] }}{{ x | replace('a', 'b') }} a <b> [link] [1] [Ab]",
    ],
)
def test_other_text_is_no_control_spelling(load: Load, tiny_models: Path, template: str) -> None:
    assert probe_model(load(tiny_models / "chatml"), template=template) == ()


def test_inst_is_plain_text_after_s_only(load: Load, models: Path) -> None:
    template = "{{ bos_token + '[INST] ' }}[/INST]{{ '[TOOL_CALLS]' }}"
    (warning,) = probe_model(load(models / "llama2"), template=template)
    assert "writes [TOOL_CALLS], which" in warning
    (warning,) = probe_model(load(models / "qwen3"), template=template)
    assert "writes [/INST], [INST], [TOOL_CALLS], which" in warning


def test_what_is_rendered_counts_too(load: Load, tiny_models: Path) -> None:
    bundle = load(tiny_models / "notemplate")
    asked: list[int] = []

    def render(messages: list[JsonObject]) -> str:
        asked.append(len(messages))
        if messages[0]["role"] == "system":
            raise RowError(ErrorCode.TEMPLATE_ERROR, "System role not supported")
        return "<|" + "user" + "|>b<|im_end|>"

    (warning,) = probe_model(bundle, render)
    assert "writes <|user|>, which" in warning
    assert asked == [4, 1]


def test_modes_with_files_are_not_probed(load: Load, models: Path) -> None:
    assert probe_model(load(models / "mistral_spm", tokenizer_mode="mistral")) == ()

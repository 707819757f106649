"""Loading: what may be saved in the files, and what is refused with a way out."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from tokenizers import Tokenizer

from promptmill.pipeline.model.config import read_config
from promptmill.pipeline.model.folder import ModelFolder
from promptmill.pipeline.model.hf import load_hf
from promptmill.pipeline.model.load import check_transformers, load_bundle
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import JobError
from promptmill.schemas.options import JobOptions, Side

Load: TypeAlias = Callable[..., ModelBundle]
MakeFolder: TypeAlias = Callable[..., Path]

TEN_WORDS = "one two three four five six seven eight nine ten"


def read(path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    return found


def ids(bundle: ModelBundle, text: str) -> list[int]:
    assert bundle.backend is not None
    return Tokenizer.from_str(bundle.backend).encode(text, add_special_tokens=False).ids


def refusal(folder: Path | str, **options: object) -> str:
    job = {"input": ("x",), "output": "o", "model": str(folder), **options}
    with pytest.raises(JobError) as error:
        load_bundle(JobOptions.model_validate(job))
    return str(error.value)


def test_saved_truncation_and_padding_have_no_effect(
    load: Load, make_folder: MakeFolder, tiny_models: Path
) -> None:
    tokenizer = read(tiny_models / "chatml" / "tokenizer.json")
    tokenizer["padding"] = {
        "strategy": {"Fixed": 64},
        "direction": "Left",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "<|endoftext|>",
    }
    wanted = ids(load(tiny_models / "chatml"), TEN_WORDS)
    assert ids(load(tiny_models / "trunc8"), TEN_WORDS) == wanted
    assert ids(load(make_folder({"tokenizer.json": tokenizer})), TEN_WORDS) == wanted


def test_the_class_that_config_leads_to_decides(load: Load, models: Path) -> None:
    text = "你好 world"
    right = ids(load(models / "deepseek_v3"), text)
    assert ids(load(models / "deepseek_v3_llamacls"), text) != right
    assert Tokenizer.from_str(load(models / "deepseek_v3").backend or "").decode(right) == text


def test_metadata_exceptions_pass_the_class_by(load: Load, make_folder: MakeFolder) -> None:
    llama = {"tokenizer_class": "LlamaTokenizer"}
    own = {"model_type": "step3_vl", "vocab_size": 436}
    bundle = load(make_folder({"config.json": own, "tokenizer_config.json": llama}))
    assert bundle.facts.tokenizer_class == "TokenizersBackend"
    other = {"model_type": "llama", "vocab_size": 436}
    bundle = load(make_folder({"config.json": other, "tokenizer_config.json": llama}))
    assert bundle.facts.tokenizer_class == "LlamaTokenizer"


def test_hub_names_decide_as_on_the_hub(make_folder: MakeFolder) -> None:
    # transformers knows some models by their name alone; a snapshot's path would hide it.
    config = {"model_type": "llama", "vocab_size": 436}
    path = make_folder(
        {"config.json": config, "tokenizer_config.json": {"tokenizer_class": "LlamaTokenizer"}}
    )
    classes = {}
    for name in ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "someone/llama"):
        folder = ModelFolder(path, name)
        classes[name] = load_hf(folder, read_config(folder), Side.LEFT).facts.tokenizer_class
    assert list(classes.values()) == ["TokenizersBackend", "LlamaTokenizer"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"config.json": None}, ("config.json", "Add the model's own")),
        ({"config.json": "{"}, ("config.json", "not valid JSON")),
        ({"config.json": "[1]"}, ("config.json", "must hold a JSON object")),
        ({"config.json": {"model_type": "qwen2", "rope_scaling": 7}}, ("config.json", "refuses")),
        ({"tokenizer.json": None}, ("tokenizer.json", "holds no vocabulary")),
        ({"tokenizer.json": '{"version": '}, ("tokenizer.json", "not valid JSON")),
        ({"tokenizer.json": {"version": "1.0"}}, ("tokenizer.json", "cannot load")),
        (
            {"tokenizer.json": "version https://git-lfs.github.com/spec/v1\noid sha256:0"},
            ("tokenizer.json", "Git LFS pointer", "git lfs pull"),
        ),
        ({"tokenizer_config.json": "{]"}, ("tokenizer_config.json", "not valid JSON")),
        (
            {"tokenizer_config.json": {"chat_template": 5}},
            ("tokenizer_config.json", "chat template"),
        ),
        ({"generation_config.json": "x"}, ("generation_config.json", "not valid JSON")),
        ({"preprocessor_config.json": "x"}, ("preprocessor_config.json", "not valid JSON")),
        ({"special_tokens_map.json": "x"}, ("special_tokens_map.json", "not valid JSON")),
    ],
)
def test_a_broken_folder_names_the_file(
    make_folder: MakeFolder, files: dict[str, object], said: tuple[str, ...]
) -> None:
    message = refusal(make_folder(files))
    for part in said:
        assert part in message


def test_a_class_that_starts_empty_without_its_file_is_refused(make_folder: MakeFolder) -> None:
    config = {"model_type": "qwen2", "vocab_size": 151936}
    folder = make_folder({"config.json": config, "tokenizer.json": None, "vocab.txt": "a"})
    assert "holds no vocabulary" in refusal(folder)


def test_code_of_models_is_never_run(load: Load, make_folder: MakeFolder) -> None:
    code = {"tokenization_own.py": "raise SystemExit('run')", "configuration_own.py": "1/0"}
    needs_it = {
        **code,
        "config.json": {"model_type": "own", "vocab_size": 436},
        "tokenizer_config.json": {
            "tokenizer_class": "OwnTokenizer",
            "auto_map": {"AutoTokenizer": ["tokenization_own.OwnTokenizer", None]},
        },
    }
    message = refusal(make_folder(needs_it))
    assert "code of models is never run" in message
    does_without = {
        **needs_it,
        "tokenizer_config.json": {
            "tokenizer_class": "Qwen2Tokenizer",
            "auto_map": {"AutoTokenizer": [None, "tokenization_own.OwnTokenizer"]},
        },
    }
    bundle = load(make_folder(does_without))
    assert any("never run here: Qwen2Tokenizer" in warning for warning in bundle.warnings)
    own_config = {
        **code,
        "config.json": {
            "model_type": "own",
            "vocab_size": 436,
            "auto_map": {"AutoConfig": "configuration_own.OwnConfig"},
        },
    }
    assert load(make_folder(own_config)).warnings == (
        "config.json names no context length: 2048 is assumed. Give --max-model-len.",
    )


def test_slow_tokenizers_are_refused(make_folder: MakeFolder) -> None:
    slow = {"model_type": "byt5", "vocab_size": 384}
    folder = make_folder(
        {"config.json": slow, "tokenizer_config.json": {"tokenizer_class": "ByT5Tokenizer"}}
    )
    assert "ByT5Tokenizer is a slow tokenizer" in refusal(folder)


def test_sentencepiece_files_are_converted(
    load: Load, make_folder: MakeFolder, models: Path
) -> None:
    sentencepiece = make_folder(
        {
            "config.json": {"model_type": "llama", "vocab_size": 32768},
            "tokenizer_config.json": {"tokenizer_class": "LlamaTokenizer"},
            "tokenizer.json": None,
        }
    )
    model = (models / "mistral_spm" / "tokenizer.model.v3").read_bytes()
    (sentencepiece / "tokenizer.model").write_bytes(model)
    bundle = load(sentencepiece)
    tokens = ids(bundle, "Hello 你好")
    assert Tokenizer.from_str(bundle.backend or "").decode(tokens) == "Hello 你好"


def test_sentence_transformers_lower_case_the_special_tokens(
    load: Load, make_folder: MakeFolder
) -> None:
    tokenizer_config = {"tokenizer_class": "PreTrainedTokenizerFast", "cls_token": "[CLS]"}
    sentence = {"max_seq_length": 77, "do_lower_case": True}
    files = {
        "tokenizer_config.json": tokenizer_config,
        "sentence_bert_config.json": sentence,
    }
    bundle = load(make_folder(files), task="pooling")
    assert bundle.facts.do_lower_case
    assert bundle.special_tokens_map["cls_token"] == "[cls]"
    assert bundle.derived_max_model_len == 77
    assert len(ids(bundle, "[cls]")) == 1


def test_split_special_tokens_is_a_fact(load: Load, make_folder: MakeFolder) -> None:
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "split_special_tokens": True}
    bundle = load(make_folder({"tokenizer_config.json": config}))
    assert bundle.facts.split_special_tokens


@pytest.mark.soak
def test_a_folder_of_mistral_files_under_hf_is_warned_about(load: Load, models: Path) -> None:
    warnings = load(models / "mistral_tekken").warnings
    assert any("--tokenizer-mode mistral" in warning for warning in warnings)


def test_what_libraries_say_stays_off_the_log(
    make_folder: MakeFolder, capfd: pytest.CaptureFixture[str]
) -> None:
    config = {"model_type": "qwen2", "vocab_size": 436, "bos_token_id": 10**6}
    load_bundle(
        JobOptions(input=("x",), output="o", model=str(make_folder({"config.json": config})))
    )
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("/no/such/folder", "no such folder"),
        ("./model", "no such folder"),
        ("s3://bucket/model", "no such folder"),
        ("a/b/c", "no such folder"),
        (__file__, "is a file"),
    ],
)
def test_what_is_no_model_is_said(model: str, said: str) -> None:
    assert said in refusal(model)


def test_releases_of_transformers_outside_the_profile_are_refused() -> None:
    check_transformers("5.16.1")
    check_transformers("5.20.9")
    for version in ("4.57.6", "5.16.0", "5.21.0"):
        with pytest.raises(JobError, match=r"pip install 'transformers>=5\.16\.1,<5\.21'"):
            check_transformers(version)


def test_a_class_that_is_not_heeded_is_named_where_it_would_split_otherwise(
    load: Load, tiny_models: Path
) -> None:
    bundle = load(tiny_models / "chatml")
    assert any("Qwen2Tokenizer" in warning for warning in bundle.warnings)
    backend = Tokenizer.from_str(bundle.backend or "")
    plain = Tokenizer.from_file(str(tiny_models / "chatml" / "tokenizer.json"))
    text = "room 101, floor 2"
    assert backend.encode(text).ids == plain.encode(text).ids

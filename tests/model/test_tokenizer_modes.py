"""Tokenizer modes: which one a folder gets, and what is said of those that are not there."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest

from promptmill.pipeline.model import registry
from promptmill.pipeline.model.config import ModelConfig, read_config
from promptmill.pipeline.model.folder import ModelFolder, locate
from promptmill.pipeline.model.loaded import LoadedTokenizer
from promptmill.pipeline.model.registry import known_modes, register, resolve_mode
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import JobError
from promptmill.schemas.options import Side

Load: TypeAlias = Callable[..., ModelBundle]
MakeFolder: TypeAlias = Callable[..., Path]


@pytest.fixture
def chatml(tiny_models: Path) -> tuple[ModelFolder, ModelConfig]:
    folder = locate(str(tiny_models / "chatml"))
    return folder, read_config(folder)


def resolve(
    chatml: tuple[ModelFolder, ModelConfig],
    asked: str = "auto",
    architecture: str = "Qwen2ForCausalLM",
    files: tuple[str, ...] = (),
) -> str:
    folder, config = chatml
    config = replace(config, raw={**config.raw, "architectures": [architecture]})
    return resolve_mode(asked, config, replace(folder, listing=folder.listing | set(files)))


def test_auto_takes_the_servers_order(chatml: tuple[ModelFolder, ModelConfig]) -> None:
    assert resolve(chatml) == "hf"
    assert resolve(chatml, files=("tekken.json", "model.safetensors")) == "hf"
    assert resolve(chatml, files=("consolidated.safetensors",)) == "hf"
    weights = "consolidated-00001-of-00002.safetensors"
    assert resolve(chatml, files=("tekken.json", weights)) == "mistral"
    assert resolve(chatml, files=("tokenizer.model.v11", weights)) == "mistral"
    assert resolve(chatml, files=("tokenizer.model", weights)) == "hf"
    both = ("tekken.json", weights)
    for architecture, mode in (
        ("DeepseekV4ForCausalLM", "deepseek_v4"),
        ("DeepseekV4ForConditionalGeneration", "deepseek_v4"),
        ("DeepseekV41ForCausalLM", "deepseek_v41"),
    ):
        assert resolve(chatml, architecture=architecture, files=both) == mode
        assert resolve(chatml, "hf", architecture, both) == "hf"


def test_modes_are_lower_cased(chatml: tuple[ModelFolder, ModelConfig]) -> None:
    assert resolve(chatml, "HF") == "hf"
    assert resolve(chatml, "Auto", "DeepseekV4ForCausalLM") == "deepseek_v4"


@pytest.mark.parametrize(
    ("mode", "architecture"),
    [
        ("deepseek_v32", "DeepseekV32ForCausalLM"),
        ("kimi_audio", "MoonshotKimiaForCausalLM"),
        ("kimi_k3", "KimiK3ForConditionalGeneration"),
        ("inkling", "InklingForConditionalGeneration"),
        ("alpamayo2_super", "Alpamayo2Super"),
        ("cohere", None),
    ],
)
def test_modes_that_are_not_supported_say_what_it_takes(
    chatml: tuple[ModelFolder, ModelConfig], mode: str, architecture: str | None
) -> None:
    with pytest.raises(JobError, match=rf"{mode} is not supported yet: it would need .*hf uses"):
        resolve(chatml, mode)
    if architecture is not None:
        with pytest.raises(JobError, match=rf"{mode} \(of this architecture\) is not supported"):
            resolve(chatml, "auto", architecture)
        assert resolve(chatml, "hf", architecture) == "hf"


def test_an_unknown_mode_lists_the_known(chatml: tuple[ModelFolder, ModelConfig]) -> None:
    with pytest.raises(JobError) as error:
        resolve(chatml, "slow")
    for mode in ("slow", "auto", *known_modes()):
        assert mode in str(error.value)


@pytest.fixture
def restored_registry() -> Iterator[None]:
    before = dict(registry._LOADERS)
    yield
    registry._LOADERS.clear()
    registry._LOADERS.update(before)


@pytest.mark.usefixtures("restored_registry")
def test_others_can_be_registered(load: Load, make_folder: MakeFolder, tiny_models: Path) -> None:
    theirs = load(tiny_models / "chatml")

    def load_mine(folder: ModelFolder, config: ModelConfig, side: Side) -> LoadedTokenizer:
        facts = replace(theirs.facts, truncation_side=side, tokenizer_class="Mine")
        return LoadedTokenizer(facts=facts, files={"mine": b"1"}, warnings=("loaded by me",))

    register("Mine", load_mine)
    bundle = load(make_folder(), tokenizer_mode="mine", task="pooling")
    assert bundle.tokenizer_mode == "mine"
    assert bundle.facts.tokenizer_class == "Mine"
    assert bundle.facts.truncation_side is Side.RIGHT
    assert bundle.files == {"mine": b"1"}
    assert bundle.warnings == ("loaded by me",)
    with pytest.raises(ValueError, match="auto"):
        register("auto", load_mine)


def test_mistral_carries_its_newest_file(load: Load, models: Path, tmp_path: Path) -> None:
    source = models / "mistral_spm"
    for name in ("tokenizer.model.v3", "config.json"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    (tmp_path / "tokenizer.model.v2").write_bytes(b"an older one that is not read")
    bundle = load(tmp_path, tokenizer_mode="mistral")
    assert list(bundle.files) == ["tokenizer.model.v3"]
    assert bundle.backend is None
    (tmp_path / "tokenizer.model.v3").write_bytes(b"broken")
    with pytest.raises(JobError, match=r"tokenizer\.model\.v3: mistral_common cannot read it"):
        load(tmp_path, tokenizer_mode="mistral", task="pooling")


def test_mistral_needs_its_files(load: Load, tiny_models: Path, tmp_path: Path) -> None:
    with pytest.raises(JobError, match="use --tokenizer-mode hf"):
        load(tiny_models / "chatml", tokenizer_mode="mistral")
    (tmp_path / "tekken.json").write_text("{}")
    with pytest.raises(JobError, match=r"params\.json nor config\.json"):
        load(tmp_path, tokenizer_mode="mistral")


def test_params_json_becomes_the_config_the_server_makes(load: Load, models: Path) -> None:
    bundle = load(models / "pixtral", tokenizer_mode="mistral")
    assert bundle.config["architectures"] == ["PixtralForConditionalGeneration"]
    assert bundle.model_type == "pixtral"
    assert bundle.text_config["vocab_size"] == bundle.model_vocab_size == 131072
    assert bundle.derived_max_model_len == 4096
    vision = bundle.config["vision_config"]
    assert isinstance(vision, dict)
    assert vision["patch_size"] == 16
    assert bundle.processor_configs["params.json"]["vocab_size"] == 131072

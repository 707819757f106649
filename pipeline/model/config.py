"""What config.json says of a model, with the defaults of its class as the server sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from transformers import AutoConfig, PreTrainedConfig

from promptmill.pipeline.model.folder import ModelFolder
from promptmill.pipeline.model.quiet import collected_notes
from promptmill.schemas.bundle import text_part
from promptmill.schemas.errors import JobError
from promptmill.schemas.json_types import JsonObject

_SENTENCE_CONFIGS = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
_MISTRAL_CONTEXT_LENGTH = 128_000
"""Context length of a params.json that names none (profile rule)."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The configuration of a model, without the weights' side of it."""

    raw: JsonObject
    """config.json as it stands; for a params.json, what the server makes of it; {} for none."""
    text: JsonObject
    """The language model's part, with the defaults of its class where transformers knows it."""
    sentence: JsonObject
    """A sentence-transformers config; {} where there is none."""
    hf: PreTrainedConfig
    """What decides the tokenizer's class, together with tokenizer_config.json."""

    @property
    def model_type(self) -> str:
        """config.json's model_type, "" when it names none."""
        value = self.raw.get("model_type")
        return value if isinstance(value, str) else ""

    @property
    def architectures(self) -> tuple[str, ...]:
        """config.json's architectures."""
        value = self.raw.get("architectures")
        return tuple(map(str, value)) if isinstance(value, list) else ()

    @property
    def vocab_size(self) -> int | None:
        """Of the language model: the size of its embedding, not of the tokenizer."""
        value = self.text.get("vocab_size")
        return value if isinstance(value, int) else None


def read_config(folder: ModelFolder) -> ModelConfig:
    """Read a model's configuration.

    Code that comes with a model is never run: a config class of its own is replaced by
    transformers' plain one, which decides the same tokenizer class.

    Raises:
        JobError: config.json (or params.json) is broken, or transformers refuses its values.
    """
    raw, hf = folder.read_json("config.json"), PreTrainedConfig()
    if raw is not None:
        hf = _hf_config(folder)
        text = _text_config(hf, raw)
    else:
        params = folder.read_json("params.json")
        raw = {} if params is None else _from_mistral_params(params)
        text = text_part(raw)
    # A model's name decides for some models on the hub; the path of a snapshot would hide it.
    hf._name_or_path = folder.name
    found = (folder.read_json(name) for name in _SENTENCE_CONFIGS)
    return ModelConfig(raw, text, next((c for c in found if c), {}), hf)


def _hf_config(folder: ModelFolder) -> PreTrainedConfig:
    with collected_notes():  # about the weights' side of the config: nothing for us
        try:
            try:
                found = AutoConfig.from_pretrained(folder.path, trust_remote_code=False)
            except (ValueError, OSError):  # a model type that it does not know, or remote code
                found = PreTrainedConfig.from_pretrained(folder.path)
        except Exception as error:  # config classes raise whatever their checks raise
            raise JobError(
                f"{folder.path / 'config.json'}: transformers refuses its values "
                f"({type(error).__name__}: {error}). Take the config.json that the model came with."
            ) from error
    return cast("PreTrainedConfig", found)


def _text_config(hf: PreTrainedConfig, raw: JsonObject) -> JsonObject:
    """The language model's part: as its class says, else the nested part, else the whole."""
    holder = getattr(hf, "thinker_config", hf)
    try:
        part = holder.get_text_config()
    except ValueError:  # several parts could be meant
        part = hf
    if part is hf and (nested := text_part(raw)) is not raw:
        return nested
    return cast("JsonObject", part.to_dict())


def _from_mistral_params(params: JsonObject) -> JsonObject:
    """The config that the server makes of a params.json, as far as prompts depend on it."""
    text: JsonObject = {"max_position_embeddings": _MISTRAL_CONTEXT_LENGTH, **params}
    vision = text.pop("vision_encoder", None)
    if not isinstance(vision, dict):
        return {"model_type": "mistral", "architectures": ["MistralForCausalLM"], **text}
    return {
        "model_type": "pixtral",
        "architectures": ["PixtralForConditionalGeneration"],
        "text_config": text,
        "vision_config": {"model_type": "pixtral", **vision},
    }

"""The processor's chat template: that of multimodal models, which may differ from the tokenizer's.

Read from the files that AutoProcessor reads, without building the processor (it wants PyTorch).
"""

from __future__ import annotations

# Typed as if not exported: where it is defined differs between releases.
from transformers.models.auto.processing_auto import (  # type: ignore[attr-defined]
    PROCESSOR_MAPPING_NAMES,
)

from promptmill.pipeline.model.config import ModelConfig
from promptmill.pipeline.model.folder import ModelFolder
from promptmill.schemas.errors import JobError
from promptmill.schemas.json_types import Json, JsonObject

_CLASS_FILES = (
    "processor_config.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "tokenizer_config.json",
    "config.json",
)
"""Where a processor's class may be named."""


def processor_template(folder: ModelFolder, config: ModelConfig) -> str | None:
    """The template that AutoProcessor would carry; None without a processor or a template.

    In its order: the key in processor_config.json, chat_template.json, chat_template.jinja.

    Raises:
        JobError: a file holds something that is no template.
    """
    if not _has_processor(folder, config):
        return None
    own = (folder.read_json("processor_config.json") or {}).get("chat_template")
    if own is not None:
        return _template(folder, "processor_config.json", own)
    legacy = folder.read_json("chat_template.json")
    if legacy is None:
        return folder.read_text("chat_template.jinja")
    if any(folder.path.glob("additional_chat_templates/*.jinja")):
        return None  # the server's processor refuses the two together and goes without
    return _template(folder, "chat_template.json", legacy.get("chat_template"))


def _has_processor(folder: ModelFolder, config: ModelConfig) -> bool:
    if config.model_type in PROCESSOR_MAPPING_NAMES:
        return True
    return any(_names_processor(folder.read_json(name) or {}) for name in _CLASS_FILES)


def _names_processor(values: JsonObject) -> bool:
    own_code = values.get("auto_map")
    return isinstance(values.get("processor_class"), str) or (
        isinstance(own_code, dict) and "AutoProcessor" in own_code
    )


def _template(folder: ModelFolder, name: str, value: Json) -> str | None:
    if isinstance(value, dict):
        value = value.get("default")
    if value is not None and not isinstance(value, str):
        raise JobError(
            f"{folder.path / name}: chat_template must be a string, found a "
            f"{type(value).__name__}. Mend the file, or give --chat-template."
        )
    return value

"""Hugging Face tokenizers, loaded through AutoTokenizer as the server loads them.

Profile rule (vLLM 0.33.0, `tokenizers/registry.py`): config.json decides the tokenizer's class
together with tokenizer_config.json, so tokenizer.json alone may give other ids.
"""

from __future__ import annotations

import logging

from transformers import AutoTokenizer, PreTrainedTokenizerBase
from transformers.models.auto.tokenization_auto import MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS
from transformers.tokenization_utils_tokenizers import TokenizersBackend

from promptmill.pipeline.model.carry import carry
from promptmill.pipeline.model.config import ModelConfig
from promptmill.pipeline.model.folder import ModelFolder
from promptmill.pipeline.model.loaded import LoadedTokenizer
from promptmill.pipeline.model.quiet import collected_notes
from promptmill.schemas.bundle import text_part
from promptmill.schemas.errors import JobError
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.options import Side

_PLAIN_BACKEND_TYPES = frozenset(
    {
        "internlm2",
        "step3_vl",
        "step3p7",
        "step5",
        "step5_vl",
        "unlimited-ocr",
        "unlimited_ocr",
    }
)
"""Model types whose tokenizer metadata misleads AutoTokenizer: the server passes it by."""
_SPLIT_PROBE = "It's 12345 o'clock,  \n\n\tyou'll see: e\u0301 — 漢字かな 한국어 🙂 a1b2_c"
"""Text that tokenizers with other rules of splitting cut into other pieces."""
_VOCABULARY_FILES = (
    "tokenizer.*json",
    "*.model",
    "*.model.*",
    "*.tiktoken",
    "tekken.json",
    "vocab.*",
)
_JSON_FILES = ("tokenizer.json", "special_tokens_map.json", "added_tokens.json", "vocab.json")


def load_hf(folder: ModelFolder, config: ModelConfig, side: Side) -> LoadedTokenizer:
    """Load a folder's tokenizer as the server does.

    Raises:
        JobError: files are missing or broken, the tokenizer is code that comes with the model, or
            it cannot be carried to workers without changing ids.
    """
    if not config.raw:
        raise JobError(
            f"{folder.name} has no config.json, which decides the tokenizer's class. Add the "
            "model's own config.json to the folder."
        )
    tokenizer, warnings = open_tokenizer(folder, config, side)
    if folder.has("tekken.json") and not folder.has("tokenizer.json"):
        warnings.append(
            "The only tokenizer in this folder is tekken.json, and Hugging Face reads it without "
            "its control tokens, as the server does in this mode. Did you mean "
            "--tokenizer-mode mistral?"
        )
    return carry(folder, tokenizer, config, warnings)


def open_tokenizer(
    folder: ModelFolder, config: ModelConfig, side: Side
) -> tuple[PreTrainedTokenizerBase, list[str]]:
    """The tokenizer as transformers builds it, and what it had to say about it.

    Raises:
        JobError: as `load_hf`.
    """
    if not any(list(folder.path.glob(pattern)) for pattern in _VOCABULARY_FILES):
        raise _without_vocabulary(folder)
    own_code = _has_own_code(folder.read_json("tokenizer_config.json") or {})
    with collected_notes() as notes:
        try:
            tokenizer = _from_pretrained(folder, config, side)
        except Exception as error:  # tokenizer classes and tokenizers raise whatever they like
            raise _load_error(folder, own_code, error) from error
    if _is_empty(tokenizer, config):
        raise _without_vocabulary(folder)
    warnings = [f"transformers: {note}" for note in notes]
    if own_code:
        warnings.append(
            f"{folder.name} comes with tokenizer code of its own, which is never run here: "
            f"{type(tokenizer).__name__} of transformers is used, as by a server without "
            "--trust-remote-code."
        )
    return tokenizer, warnings


def _from_pretrained(
    folder: ModelFolder, config: ModelConfig, side: Side
) -> PreTrainedTokenizerBase:
    tokenizer: PreTrainedTokenizerBase
    if _is_plain(folder, config):
        tokenizer = TokenizersBackend.from_pretrained(
            folder.path, truncation_side=str(side), local_files_only=True
        )
        _note_other_class(folder, config, tokenizer)
    else:
        tokenizer = _auto_tokenizer(folder, config, side)
    return tokenizer


def _auto_tokenizer(
    folder: ModelFolder, config: ModelConfig, side: Side
) -> PreTrainedTokenizerBase:
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
        folder.path,
        config=config.hf,
        trust_remote_code=False,
        mistral_format=False,
        truncation_side=str(side),
        local_files_only=True,
    )
    return tokenizer


def _is_plain(folder: ModelFolder, config: ModelConfig) -> bool:
    """Whether tokenizer.json alone is the tokenizer, whatever class the metadata names."""
    if config.model_type in _PLAIN_BACKEND_TYPES:
        return True
    listed = config.model_type in MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS
    return listed and folder.has("tokenizer.json")


def _note_other_class(
    folder: ModelFolder, config: ModelConfig, plain: PreTrainedTokenizerBase
) -> None:
    """Say where transformers' own class for the model type would split text in another way."""
    if config.model_type in _PLAIN_BACKEND_TYPES:
        return
    other = _auto_tokenizer(folder, config, Side.LEFT)
    if plain.encode(_SPLIT_PROBE, add_special_tokens=False) != other.encode(
        _SPLIT_PROBE, add_special_tokens=False
    ):
        logging.getLogger("transformers").warning(
            "tokenizer.json is followed, as for all models of type %s; the class %s, which this "
            "release would take by itself, splits text in another way. Compare a row with your "
            "server.",
            config.model_type,
            type(other).__name__,
        )


def _is_empty(tokenizer: PreTrainedTokenizerBase, config: ModelConfig) -> bool:
    """Whether its class found no vocabulary file that it reads: some then start with nothing."""
    written = text_part(config.raw).get("vocab_size")
    return isinstance(written, int) and tokenizer.vocab_size < 256 <= written // 10


def _has_own_code(tokenizer_config: JsonObject) -> bool:
    classes = tokenizer_config.get("auto_map")
    return "AutoTokenizer" in classes if isinstance(classes, dict) else bool(classes)


def _without_vocabulary(folder: ModelFolder) -> JobError:
    return JobError(
        f"{folder.name} holds no vocabulary that its tokenizer class can read (looked for "
        f"{', '.join(_VOCABULARY_FILES)}). Copy the model's own tokenizer.json and "
        "tokenizer_config.json into the folder."
    )


def _load_error(folder: ModelFolder, own_code: bool, error: Exception) -> JobError:
    for name in _JSON_FILES:
        folder.read_json(name)  # names the file where one is broken
    if own_code and isinstance(error, ValueError):
        return JobError(
            f"{folder.name} needs tokenizer code that comes with the model, and code of models is "
            "never run. Save the tokenizer as tokenizer.json with transformers and name that "
            "folder, or register() a loader for it."
        )
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return JobError(
        f"{folder.name}: transformers cannot load the tokenizer ({reason[:300]}). Compare "
        "tokenizer.json and tokenizer_config.json with the model's own files."
    )

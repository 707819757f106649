"""DeepSeek V4 and V4.1: a Hugging Face backend whose prompts the official library writes.

The official release may be a bare tokenizer.json, so neither config.json nor
tokenizer_config.json is needed.
"""

from __future__ import annotations

from transformers import PreTrainedTokenizerBase

from promptmill.pipeline.model.carry import carry
from promptmill.pipeline.model.config import ModelConfig
from promptmill.pipeline.model.deepseek_tokens import BOS, EOS
from promptmill.pipeline.model.folder import ModelFolder
from promptmill.pipeline.model.hf import open_tokenizer
from promptmill.pipeline.model.loaded import LoadedTokenizer
from promptmill.schemas.errors import JobError
from promptmill.schemas.options import Side

_SPELLINGS = {"bos_token": BOS, "eos_token": EOS}


def load_deepseek(folder: ModelFolder, config: ModelConfig, side: Side) -> LoadedTokenizer:
    """Load the tokenizer; BOS and EOS are the official spellings where no file names them.

    Raises:
        JobError: as `load_hf`, or the file holds a truncation or a padding.
    """
    _refuse_saved_limits(folder)
    tokenizer, warnings = open_tokenizer(folder, config, side)
    _name_missing_tokens(tokenizer)
    return carry(folder, tokenizer, config, warnings)


def _refuse_saved_limits(folder: ModelFolder) -> None:
    """The library would apply them to every stretch of plain text: no server can mean that."""
    saved = folder.read_json("tokenizer.json") or {}
    found = [name for name in ("truncation", "padding") if saved.get(name) is not None]
    if found:
        raise JobError(
            f"{folder.path / 'tokenizer.json'} was saved with {' and '.join(found)}, which "
            "the released file does not have: the official library would cut or pad every piece of "
            f"a prompt by itself. Set {' and '.join(found)} to null in it."
        )


def _name_missing_tokens(tokenizer: PreTrainedTokenizerBase) -> None:
    vocab = tokenizer.get_vocab()
    for name, spelling in _SPELLINGS.items():
        if getattr(tokenizer, name) is None and spelling in vocab:
            setattr(tokenizer, name, spelling)

"""DeepSeek V4 and V4.1: a Hugging Face backend whose prompts another renderer writes.

The official release may be a bare tokenizer.json, so neither config.json nor
tokenizer_config.json is needed.
"""

from __future__ import annotations

from transformers import PreTrainedTokenizerBase

from promptmill.pipeline.model.carry import carry
from promptmill.pipeline.model.config import ModelConfig
from promptmill.pipeline.model.folder import ModelFolder
from promptmill.pipeline.model.hf import open_tokenizer
from promptmill.pipeline.model.loaded import LoadedTokenizer
from promptmill.schemas.options import Side

_SPELLINGS = {
    "bos_token": "<｜begin▁of▁sentence｜>",
    "eos_token": "<｜end▁of▁sentence｜>",
}


def load_deepseek(folder: ModelFolder, config: ModelConfig, side: Side) -> LoadedTokenizer:
    """Load the tokenizer; BOS and EOS are the official spellings where no file names them.

    Raises:
        JobError: as `load_hf`.
    """
    tokenizer, warnings = open_tokenizer(folder, config, side)
    _name_missing_tokens(tokenizer)
    return carry(folder, tokenizer, config, warnings)


def _name_missing_tokens(tokenizer: PreTrainedTokenizerBase) -> None:
    vocab = tokenizer.get_vocab()
    for name, spelling in _SPELLINGS.items():
        if getattr(tokenizer, name) is None and spelling in vocab:
            setattr(tokenizer, name, spelling)

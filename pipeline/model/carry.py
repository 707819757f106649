"""From a loaded Hugging Face tokenizer to what workers need of it, without transformers."""

from __future__ import annotations

import dataclasses

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase
from transformers.tokenization_utils_tokenizers import TokenizersBackend

from promptmill.pipeline.model.config import ModelConfig
from promptmill.pipeline.model.folder import ModelFolder
from promptmill.pipeline.model.loaded import LoadedTokenizer
from promptmill.pipeline.model.probe import PROBE_TEXTS
from promptmill.pipeline.model.quiet import collected_notes
from promptmill.schemas.bundle import TokenizerFacts
from promptmill.schemas.errors import JobError
from promptmill.schemas.options import Side


def carry(
    folder: ModelFolder,
    tokenizer: PreTrainedTokenizerBase,
    config: ModelConfig,
    warnings: list[str],
) -> LoadedTokenizer:
    """Serialise a tokenizer, with its facts and its chat templates.

    Args:
        folder: where it was loaded from.
        tokenizer: as transformers built it.
        config: of the model.
        warnings: what loading noticed.

    Raises:
        JobError: it cannot be serialised without changing ids.
    """
    lowers = config.sentence.get("do_lower_case") is True
    if lowers:
        tokenizer.add_special_tokens(
            {name: text.lower() for name, text in tokenizer.special_tokens_map.items()}
        )
    facts = dataclasses.replace(_facts(tokenizer), do_lower_case=lowers)
    backend = _serialised(folder, tokenizer)
    return LoadedTokenizer(
        facts=facts,
        backend=backend,
        special_tokens_map=dict(tokenizer.special_tokens_map),
        chat_templates=_templates(folder, tokenizer.chat_template),
        templates_are_named=isinstance(tokenizer.chat_template, dict),
        warnings=tuple(warnings),
    )


def _facts(tokenizer: PreTrainedTokenizerBase) -> TokenizerFacts:
    """As the server derives them (vLLM 0.33.0, `tokenizers/hf.py`)."""
    vocab = tokenizer.get_vocab()
    return TokenizerFacts(
        max_chars_per_token=max(map(len, vocab)),
        max_token_id=max(*vocab.values(), tokenizer.vocab_size - 1),
        vocab_size=tokenizer.vocab_size,
        length=len(tokenizer),
        truncation_side=Side(tokenizer.truncation_side),
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        all_special_ids=tuple(tokenizer.all_special_ids),
        all_special_tokens=tuple(tokenizer.all_special_tokens),
        is_fast=tokenizer.is_fast,
        tokenizer_class=type(tokenizer).__name__,
        split_special_tokens=tokenizer.split_special_tokens,
        clean_up_tokenization_spaces=bool(tokenizer.clean_up_tokenization_spaces),
    )


def _serialised(folder: ModelFolder, tokenizer: PreTrainedTokenizerBase) -> str:
    """The backend as JSON, checked to give the same ids when read back."""
    name = type(tokenizer).__name__
    if not isinstance(tokenizer, TokenizersBackend):
        raise JobError(
            f"{folder.name}: {name} is a slow tokenizer, which runs in Python only, and "
            "transformers has no conversion for it. Use a model with a tokenizer.json, or "
            "register() a loader for it."
        )
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()  # a tokenizer.json may have saved either
    backend.no_padding()
    try:
        text = backend.to_str()
    except Exception as error:  # a pre-tokenizer written in Python, for one
        raise JobError(
            f"{folder.name}: the backend of {name} cannot be serialised ({error}), so workers "
            "cannot have it. Use a model whose tokenizer.json holds the whole tokenizer."
        ) from error
    if not _gives_same_ids(folder, tokenizer, text):
        raise JobError(
            f"{folder.name}: the serialised backend of {name} gives other ids than the tokenizer "
            "itself, so workers cannot use it. register() a loader for it."
        )
    return text


def _gives_same_ids(folder: ModelFolder, tokenizer: PreTrainedTokenizerBase, backend: str) -> bool:
    read_back = Tokenizer.from_str(backend)
    read_back.encode_special_tokens = tokenizer.split_special_tokens
    for text in (*PROBE_TEXTS.values(), " ".join(tokenizer.all_special_tokens)):
        for special in (False, True):
            with collected_notes():
                try:
                    wanted = tokenizer(text, add_special_tokens=special)["input_ids"]
                except Exception as error:  # tokenizers of documents want boxes, and so on
                    raise JobError(
                        f"{folder.name}: {type(tokenizer).__name__} does not tokenize plain text "
                        f"({type(error).__name__}: {error})."
                    ) from error
            if read_back.encode(text, add_special_tokens=special).ids != wanted:
                return False
    return True


def _templates(folder: ModelFolder, found: object) -> dict[str, str]:
    """Chat templates by name.

    Raises:
        JobError: tokenizer_config.json holds something that is no template.
    """
    if found is None:
        return {}
    by_name = found if isinstance(found, dict) else {"default": found}
    for name, template in by_name.items():
        if not isinstance(template, str):
            raise JobError(
                f"{folder.path / 'tokenizer_config.json'}: the chat template {name!r} must be a "
                f"string, found a {type(template).__name__}. Mend the file, or give "
                "--chat-template."
            )
    return dict(by_name)

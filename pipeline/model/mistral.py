"""Mistral's own tokenizer files, read by mistral_common and carried as they are."""

from __future__ import annotations

import re
from pathlib import Path

from promptmill.pipeline.model.config import ModelConfig
from promptmill.pipeline.model.folder import ModelFolder
from promptmill.pipeline.model.loaded import LoadedTokenizer
from promptmill.pipeline.model.quiet import collected_notes
from promptmill.schemas.bundle import TokenizerFacts
from promptmill.schemas.errors import JobError
from promptmill.schemas.options import Side

MISTRAL_FILE = re.compile(r"tekken\.json|tokenizer\.model\.v\w+")
"""Names of tokenizer files in Mistral's formats."""


def load_mistral(folder: ModelFolder, config: ModelConfig, side: Side) -> LoadedTokenizer:
    """Read a folder's tekken.json, else its newest tokenizer.model.v*.

    Raises:
        JobError: there is none, mistral_common refuses it, or the folder has no config.
    """
    names = [p.name for p in folder.path.iterdir() if MISTRAL_FILE.fullmatch(p.name)]
    if not names:
        raise JobError(
            f"{folder.name}: tokenizer mode mistral needs tekken.json or tokenizer.model.v* in "
            "the folder. For a tokenizer.json use --tokenizer-mode hf."
        )
    if not config.raw:
        raise JobError(
            f"{folder.name} has neither params.json nor config.json. Add the model's own to the "
            "folder."
        )
    name = "tekken.json" if "tekken.json" in names else max(names)
    data = folder.read_bytes(name)
    assert data is not None  # it was listed
    return LoadedTokenizer(facts=_facts(folder.path / name, side), files={name: data})


def _facts(path: Path, side: Side) -> TokenizerFacts:
    """As the server's `MistralTokenizer` has them: of the whole vocabulary."""
    # Here, because it takes a while to import and few models need it.
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

    with collected_notes():
        try:
            tokenizer = MistralTokenizer.from_file(path).instruct_tokenizer.tokenizer
        except Exception as error:  # mistral_common raises whatever reading stumbles over
            raise JobError(
                f"{path}: mistral_common cannot read it ({type(error).__name__}: {error}). Copy "
                "the file again from where the model came from."
            ) from error
    vocab, special = tokenizer.vocab(), sorted(tokenizer.special_ids)
    return TokenizerFacts(
        max_chars_per_token=max(map(len, vocab)),
        max_token_id=len(vocab) - 1,
        vocab_size=len(vocab),
        length=len(vocab),
        truncation_side=side,
        bos_token_id=tokenizer.bos_id,
        eos_token_id=tokenizer.eos_id,
        pad_token_id=tokenizer.pad_id,
        all_special_ids=tuple(special),
        all_special_tokens=tuple(vocab[i] for i in special),
        is_fast=True,
        tokenizer_class="MistralTokenizer",
    )

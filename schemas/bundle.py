"""The model bundle: everything a worker needs of a model, resolved once where the run starts.

Workers load this and never see the model folder or the hub, so no two of them can resolve
anything differently. It pickles, and its hash is the tokenizer's identity in the fingerprint.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.options import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerFacts:
    """What the rules ask of a tokenizer, as the server (`tokenizers/hf.py`) derives it."""

    max_chars_per_token: int
    """Code points of the longest vocabulary entry; bounds the characters of a prompt."""
    max_token_id: int
    """Largest id of the vocabulary, added tokens included."""
    vocab_size: int
    """Without added tokens, as Hugging Face counts."""
    length: int
    """With added tokens: `len(tokenizer)`."""
    truncation_side: Side
    """The side taken where none is asked for: left to generate, right to pool and train."""
    bos_token_id: int | None
    eos_token_id: int | None
    pad_token_id: int | None
    all_special_ids: tuple[int, ...]
    all_special_tokens: tuple[str, ...]
    is_fast: bool
    tokenizer_class: str
    split_special_tokens: bool = False
    """Whether special spellings in the text are encoded as plain text; not part of `backend`."""
    clean_up_tokenization_spaces: bool = False
    """Whether decoding cleans spaces up, as the tokenizer's config says."""
    do_lower_case: bool = False
    """From a sentence-transformers config: prompts are lower-cased."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelBundle:
    """A model without its weights."""

    name: str
    """As the user named it."""
    revision: str | None
    """The commit a hub name resolved to; None for a folder."""
    tokenizer_mode: str
    """Resolved: never "auto"."""
    facts: TokenizerFacts
    backend: str | None
    """The tokenizer, serialised (tokenizers' JSON), truncation and padding neutralised; None for
    modes that carry `files`."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Tokenizer files by name, for modes whose tokenizer is no serialisable backend."""
    special_tokens_map: dict[str, str | list[str]] = field(default_factory=dict)
    """Names as templates see them: bos_token, eos_token, ..."""
    chat_templates: dict[str, str] = field(default_factory=dict)
    """By name; a single template is "default"."""
    templates_are_named: bool = False
    """Whether a request may choose a template by its name; a single template has none."""
    processor_template: str | None = None
    """The processor's own template, used before the tokenizer's where no tools are given."""
    config: JsonObject = field(default_factory=dict)
    """config.json."""
    generation_config: JsonObject = field(default_factory=dict)
    """generation_config.json; empty where there is none."""
    processor_configs: dict[str, JsonObject] = field(default_factory=dict)
    """preprocessor_config.json and its kin, by file name."""
    model_vocab_size: int | None = None
    """vocab_size of the text config: the second bound on ids."""
    derived_max_model_len: int
    """Context length where the user gives none, in ids."""
    warnings: tuple[str, ...] = ()
    """What loading noticed; said once at the start."""

    @property
    def text_config(self) -> JsonObject:
        """The part of config.json that describes the language model."""
        return text_part(self.config)

    @property
    def model_type(self) -> str:
        """config.json's model_type, "" when it names none."""
        value = self.config.get("model_type")
        return value if isinstance(value, str) else ""

    def sha256(self, *, templates: bool = False) -> str:
        """Hash of the tokenizer (or of the templates), hexadecimal."""
        digest = hashlib.sha256()
        if templates:
            parts: dict[str, str | None] = {**self.chat_templates, "/": self.processor_template}
            digest.update(json.dumps(parts, sort_keys=True).encode())
            return digest.hexdigest()
        digest.update((self.backend or "").encode())
        for name in sorted(self.files):
            digest.update(name.encode() + b"\0" + self.files[name])
        digest.update(json.dumps(self.special_tokens_map, sort_keys=True).encode())
        return digest.hexdigest()


def text_part(config: JsonObject) -> JsonObject:
    """The part of a config.json that describes the language model; the whole where it is flat."""
    thinker = config.get("thinker_config")
    holder = thinker if isinstance(thinker, dict) else config
    for key in ("text_config", "llm_config", "language_config"):
        part = holder.get(key)
        if isinstance(part, dict):
            return part
    return holder

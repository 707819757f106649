"""What a tokenizer loader gives, for any tokenizer mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from promptmill.pipeline.model.config import ModelConfig
from promptmill.pipeline.model.folder import ModelFolder
from promptmill.schemas.bundle import TokenizerFacts
from promptmill.schemas.options import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTokenizer:
    """The tokenizer's part of a bundle; `ModelBundle` says what the fields mean.

    Exactly one of `backend` and `files` is set.
    """

    facts: TokenizerFacts
    backend: str | None = None
    files: dict[str, bytes] = field(default_factory=dict)
    special_tokens_map: dict[str, str | list[str]] = field(default_factory=dict)
    chat_templates: dict[str, str] = field(default_factory=dict)
    templates_are_named: bool = False
    warnings: tuple[str, ...] = ()


Loader: TypeAlias = Callable[[ModelFolder, ModelConfig, Side], LoadedTokenizer]
"""Loads a folder's tokenizer, whose own truncation side becomes the given one.

Raises JobError where the folder cannot be loaded."""

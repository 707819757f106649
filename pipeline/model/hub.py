"""Tokenizer and config files from a model hub; weights are never downloaded.

Token, endpoint, cache and offline mode are huggingface_hub's own (`HF_TOKEN`, `HF_ENDPOINT`,
`HF_HUB_CACHE`, `HF_HUB_OFFLINE`). ModelScope is used only where it is asked for.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import constants, get_cached_repo_tree, snapshot_download
from huggingface_hub.errors import (
    CachedRepoTreeNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils.tqdm import (
    are_progress_bars_disabled,
    disable_progress_bars,
    enable_progress_bars,
)

from promptmill.schemas.errors import JobError

WANTED_FILES = (
    "config.json",
    "params.json",
    "generation_config.json",
    "tokenizer*.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model*",
    "tiktoken.model",
    "*.tiktoken",
    "spiece.model",
    "sentencepiece*.model",
    "tekken.json",
    "chat_template.jinja",
    "chat_template.json",
    "additional_chat_templates/*.jinja",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "processor_config.json",
    "sentence_*_config.json",
)
"""All that is ever downloaded of a repository."""

_MODELSCOPE_SWITCHES = ("PROMPTMILL_USE_MODELSCOPE", "VLLM_USE_MODELSCOPE")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The downloaded part of a repository at one commit."""

    path: Path
    commit: str | None
    """None where the hub does not say (ModelScope)."""
    listing: frozenset[str]
    """Every file of the repository at that commit, downloaded or not."""


def fetch(repo_id: str, revision: str | None = None) -> Snapshot:
    """Download what is wanted of a repository, or find it in the cache.

    Raises:
        JobError: no such repository or revision, no access, hub not reached, or offline and not
            in the cache.
    """
    if any(os.environ.get(name, "").lower() in ("1", "true") for name in _MODELSCOPE_SWITCHES):
        return _fetch_from_modelscope(repo_id, revision)
    with _hub_errors(repo_id, revision), _no_progress_bars():
        path = Path(
            snapshot_download(repo_id, revision=revision, allow_patterns=list(WANTED_FILES))
        )
    commit = path.name
    try:
        listing = {file.path for file in get_cached_repo_tree(repo_id, revision=commit)}
    except CachedRepoTreeNotFoundError:  # cached by a tool that keeps no listing, and offline now
        listing = _files_under(path)
    return Snapshot(path, commit, frozenset(listing))


@contextmanager
def _hub_errors(repo_id: str, revision: str | None) -> Iterator[None]:
    where = f"{repo_id} at {constants.ENDPOINT}"
    try:
        yield
    except GatedRepoError as error:
        raise JobError(
            f"The model {where} is gated. Ask for access on its page, then set HF_TOKEN to a token "
            "that has it."
        ) from error
    except RevisionNotFoundError as error:
        raise JobError(
            f"The model {where} has no revision {revision!r}. Name a branch, tag or commit of it."
        ) from error
    except RepositoryNotFoundError as error:
        raise JobError(
            f"There is no model {where}, or it is private and HF_TOKEN gives no access to it. "
            "A folder of your own must exist on this machine."
        ) from error
    except LocalEntryNotFoundError as error:
        raise JobError(_not_in_cache(where, revision, error)) from error
    except HfHubHTTPError as error:
        raise JobError(f"The hub refused {where}: {_status(error)}. Check HF_TOKEN.") from error
    except HFValidationError as error:
        raise JobError(f"{repo_id!r} is neither a folder nor a hub id: {error}") from error


def _not_in_cache(where: str, revision: str | None, error: LocalEntryNotFoundError) -> str:
    missing = f"not (wholly) in the cache at {constants.HF_HUB_CACHE}"
    which = f"The model {where}, revision {revision or constants.DEFAULT_REVISION},"
    if constants.HF_HUB_OFFLINE:
        return (
            f"{which} is {missing}, and HF_HUB_OFFLINE forbids to fetch it. Unset it once to "
            "download the tokenizer and config files, or name a folder."
        )
    cause = error.__cause__
    if isinstance(cause, HfHubHTTPError):
        return f"{which} is {missing}, and the hub refused it: {_status(cause)}. Check HF_TOKEN."
    return (
        f"{which} is {missing}, and the hub could not be reached ({type(cause).__name__}). Check "
        "the network and HF_ENDPOINT, or name a folder."
    )


def _status(error: HfHubHTTPError) -> str:
    response = error.response
    return f"HTTP status {response.status_code}" if response is not None else "no response"


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    """A handful of small files needs no bars in the log."""
    were_disabled = are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if not were_disabled:
            enable_progress_bars()


def _fetch_from_modelscope(repo_id: str, revision: str | None) -> Snapshot:
    try:
        modelscope = importlib.import_module("modelscope")
    except ImportError as error:
        raise JobError(
            f"{' or '.join(_MODELSCOPE_SWITCHES)} asks for ModelScope, whose package is not "
            "installed. Run `pip install modelscope`, or unset the variable."
        ) from error
    try:
        path = Path(
            modelscope.snapshot_download(
                repo_id,
                revision=revision,
                allow_patterns=list(WANTED_FILES),
                local_files_only=constants.HF_HUB_OFFLINE,
            )
        )
    except Exception as error:  # its exceptions have no common base that is stable
        raise JobError(
            f"ModelScope did not give the model {repo_id} ({type(error).__name__}: {error}). "
            "Check the id and the network, or name a folder."
        ) from error
    return Snapshot(path, revision, frozenset(_files_under(path)))


def _files_under(path: Path) -> set[str]:
    return {p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file()}

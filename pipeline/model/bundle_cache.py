"""Resolved bundles on disk, so that a model that was seen before is ready without transformers.

An entry is found by all that could change it: the content of the model's files, the options that
resolving looks at, the versions of the libraries that do it, and our own code. An entry is JSON
under a digest of itself; what cannot be read, or could have been written by someone else, counts
as not there. The folder is `$PROMPTMILL_CACHE`, else `promptmill` in the user's cache folder;
`PROMPTMILL_CACHE=off` does without.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import msgspec

from promptmill.pipeline.model.folder import locate
from promptmill.schemas import bundle as bundle_schema
from promptmill.schemas import profile
from promptmill.schemas.bundle import ModelBundle, TokenizerFacts
from promptmill.schemas.options import JobOptions

KEPT: Final = 16
"""Bundles that stay in the folder; one takes some 10 MB."""

_LIBRARIES: Final = ("transformers", "tokenizers", "mistral-common", "deepseek-recipe", "msgspec")
_OPTIONS: Final = ("model", "tokenizer_mode", "task", "max_model_len")
"""What `load_bundle` looks at, but for the revision: a folder knows its commit."""
_WEIGHTS: Final = frozenset(
    {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx", ".npz", ".ckpt"}
)
"""Files that are never read: their sizes stand for them."""
_LARGE: Final = 256 << 20
"""Bytes above which a file is no tokenizer's either."""

_own_loaders = False


def loaders_changed() -> None:
    """Do without the cache in this process: what a loader of the user's does is not in the key."""
    global _own_loaders  # the registry of loaders is of the process, too
    _own_loaders = True


def load_bundle_cached(options: JobOptions) -> ModelBundle:
    """As `load_bundle`, from disk where the same was resolved before.

    Raises:
        JobError: as `load_bundle`.
    """
    root = cache_folder()
    if root is None or _own_loaders:
        return _resolve(options)
    try:
        path = root / f"{_key(options)}.json"
    except OSError:  # a file that cannot be read: loading finds out whether it is needed
        return _resolve(options)
    found = _read(path)
    if found is None:
        found = _resolve(options)
        with contextlib.suppress(OSError):  # a full or read-only disk costs the time, no more
            _store(path, found)
    return found


def cache_folder() -> Path | None:
    """Where bundles are kept; None: nowhere."""
    given = os.environ.get("PROMPTMILL_CACHE")
    if given == "off":
        return None
    if given:
        return Path(given) / "bundles"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "promptmill" / "bundles"


def _resolve(options: JobOptions) -> ModelBundle:
    from promptmill.pipeline.model.load import load_bundle  # imports transformers: seconds

    return load_bundle(options)


def _key(options: JobOptions) -> str:
    folder = locate(options.model, options.revision)
    digest = hashlib.blake2b(digest_size=20)
    facts = {
        "rules": profile.NAME,
        "python": sys.version,
        "libraries": {name: _version(name) for name in _LIBRARIES},
        "options": options.model_dump(mode="json", include=set(_OPTIONS)),
        "revision": folder.revision,
        "listing": sorted(folder.listing),
    }
    digest.update(msgspec.json.encode(facts))
    for path in (*_visible(folder.path, "*"), *_visible(folder.path, "*/*"), *_own_code()):
        content = _content(path)
        digest.update(msgspec.json.encode([path.parts[-2:], len(content)]) + content)
    return digest.hexdigest()


def _visible(root: Path, pattern: str) -> Iterator[Path]:
    """Files of a folder in order, without what version control and tools hide in it."""
    for path in sorted(root.glob(pattern)):
        if path.is_file() and not any(part[0] == "." for part in path.relative_to(root).parts):
            yield path


def _content(path: Path) -> bytes:
    size = path.stat().st_size
    if path.suffix in _WEIGHTS or size > _LARGE:
        return str(size).encode()
    return path.read_bytes()


def _own_code() -> tuple[Path, ...]:
    return (*sorted(Path(__file__).parent.glob("*.py")), Path(bundle_schema.__file__))


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def _read(path: Path) -> ModelBundle | None:
    """An entry that is whole and the user's own."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return None
            digest, _, content = file.read().partition(b"\n")
        return _decode(content) if digest == _digest(content) else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _store(path: Path, bundle: ModelBundle) -> None:
    """Write an entry that reads back equal (one with a NaN in its config would not)."""
    content = msgspec.json.encode(bundle)
    if _decode(content) != bundle:
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(_digest(content) + b"\n" + content)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    entries = sorted(path.parent.glob("*.json"), key=lambda entry: entry.stat().st_mtime)
    for entry in entries[:-KEPT]:
        entry.unlink(missing_ok=True)


def _decode(content: bytes) -> ModelBundle:
    fields = msgspec.json.decode(content)
    fields["facts"] = msgspec.convert(fields["facts"], TokenizerFacts)
    fields["files"] = {name: base64.b64decode(data) for name, data in fields["files"].items()}
    fields["warnings"] = tuple(fields["warnings"])
    return ModelBundle(**fields)


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=20).hexdigest().encode()

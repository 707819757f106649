"""What lies in a folder or matches a pattern, locally or on any fsspec file system."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Final

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

_SKIPPED: Final = frozenset("._")
"""First letters of names that are not read unless a pattern spells them."""
_WILD: Final = frozenset("*?[")


def is_pattern(path: str) -> bool:
    """Whether a path has wildcards."""
    return not _WILD.isdisjoint(path)


def fixed_part(pattern: str) -> str:
    """The folders in front of the first wildcard.

    Example: `/data/2024/*/x.jsonl` -> `/data/2024`.
    """
    return "/".join(takewhile(lambda part: not is_pattern(part), pattern.split("/")))


def name_below(folder: str, path: str) -> str:
    """A path relative to a folder it lies in."""
    return path.removeprefix(folder).lstrip("/")


def files_below(system: AbstractFileSystem, folder: str) -> dict[str, int]:
    """Every file below a folder, and its size; hidden and underscore names are left out.

    Links to folders are followed, but no folder is entered twice.

    Raises:
        OSError: something in it cannot be looked at.
    """
    if isinstance(system, LocalFileSystem):
        return {path: size for path in _walk(folder) if (size := local_size(path)) is not None}
    return {
        path: info["size"]
        for path, info in system.find(folder, detail=True).items()
        if not _left_out(name_below(folder, path), _SKIPPED)
    }


def files_matching(system: AbstractFileSystem, pattern: str) -> dict[str, int]:
    """Every file that matches, and every file below a folder that does, and its size.

    Hidden and underscore names are left out unless a part of the pattern starts like them.

    Raises:
        OSError: something that matches cannot be looked at.
        ValueError: not a pattern that the file system understands.
    """
    root = fixed_part(pattern)
    below = name_below(root, pattern)
    skipped = _SKIPPED - {part[:1] for part in below.split("/")}
    sizes: dict[str, int] = {}
    for path, size in _matches(system, root, below):
        if _left_out(name_below(root, path), skipped):
            continue
        if size is not None:
            sizes[path] = size
        elif "**" not in below and system.isdir(path):
            sizes |= files_below(system, path)
    return sizes


def local_size(path: str) -> int | None:
    """Bytes of a local file; None for folders and whatever else is no regular file."""
    status = Path(path).stat()
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _matches(system: AbstractFileSystem, root: str, below: str) -> Iterator[tuple[str, int | None]]:
    """What matches, with its size; None where it is no file."""
    if isinstance(system, LocalFileSystem):
        for found in Path(root or "/").glob(below):
            yield str(found), local_size(str(found))
        return
    for path, info in system.glob(f"{root}/{below}", detail=True).items():
        yield path, info["size"] if info["type"] == "file" else None


def _walk(folder: str) -> Iterator[str]:
    entered = {Path(folder).resolve()}
    for place, folders, names in os.walk(folder, followlinks=True, onerror=_raised):
        fresh = []
        for name in sorted(folders):
            real = Path(place, name).resolve()
            if name[:1] not in _SKIPPED and real not in entered:
                entered.add(real)
                fresh.append(name)
        folders[:] = fresh
        yield from (str(Path(place, name)) for name in names if name[:1] not in _SKIPPED)


def _raised(error: OSError) -> None:
    """What os.walk would pass over in silence."""
    raise error


def _left_out(name: str, first_letters: frozenset[str]) -> bool:
    return any(part[:1] in first_letters for part in name.split("/"))

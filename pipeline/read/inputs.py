"""From what the user named (files, folders, patterns, URLs) to an ordered list of input files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from promptmill.pipeline.read.layout import ENDINGS, Layout, layout_of
from promptmill.pipeline.read.listing import (
    files_below,
    files_matching,
    fixed_part,
    is_pattern,
    name_below,
)
from promptmill.pipeline.read.saved_sets import reading_order
from promptmill.pipeline.storage.systems import system_of
from promptmill.pipeline.write.names import PRIVATE
from promptmill.schemas.errors import JobError
from promptmill.schemas.redact import redacted
from promptmill.schemas.shard import InputFile

_NAMED_IN_MESSAGES: Final = 3


@dataclass(frozen=True, slots=True)
class FoundInputs:
    """What the inputs named by the user come to."""

    files: tuple[InputFile, ...]
    """In the order of the inputs; within one, sorted by path. No file twice, no name twice."""
    warnings: tuple[str, ...]


class _Found(NamedTuple):
    key: str
    """What tells the file from every other one."""
    url: str
    """As `InputFile.url`."""
    name: str
    """Below the input that was named."""
    size: int
    layout: Layout


class _Selection(NamedTuple):
    files: list[tuple[str, Layout]]
    """Paths and what they are, in reading order."""
    warnings: list[str]


def find_inputs(inputs: Sequence[str]) -> FoundInputs:
    """List the files that the inputs stand for.

    A file is named by its base name, a file of a folder by its path below the folder, a match of a
    pattern by its path below the folders in front of the first wildcard. Names that would be the
    same are lengthened to the left until they differ. A local file that is reached twice, also
    through links, is read once.

    Args:
        inputs: paths, patterns (`*`, `?`, `[...]`, `**` for any folders), or URLs that fsspec
            knows. A path that exists is taken as it is, whatever it looks like. Folders are read
            with all below them but names that start with `.` or `_`, and but the output folders
            of runs; a folder that datasets' `save_to_disk` wrote gives the files that it lists.

    Raises:
        JobError: nothing is there, it is not what can be read, or cannot be reached.
    """
    found: dict[str, _Found] = {}
    warnings: list[str] = []
    for given in inputs:
        with _explained(given):
            files, noticed = _look_at(given)
        warnings += noticed
        for file in files:
            found.setdefault(file.key, file)
    names = _distinct(list(found.values()))
    return FoundInputs(
        tuple(
            InputFile(file.url, name, file.layout.kind, file.layout.compression, file.size)
            for file, name in zip(found.values(), names, strict=True)
        ),
        tuple(map(redacted, warnings)),
    )


@contextmanager
def _explained(given: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ImportError, ValueError) as error:
        raise JobError(
            f"Input {given!r} cannot be looked at: {error}. Check the spelling, the access rights "
            "and, for a URL, that the package for its protocol is installed."
        ) from None  # what libraries raise may show credentials of a URL


def _look_at(given: str) -> tuple[list[_Found], list[str]]:
    """The files of one input, and warnings."""
    system, path = system_of(given)
    path = path.rstrip("/")
    if system.isfile(path):
        if (layout := layout_of(path)) is None:
            raise JobError(f"{given} has no ending that is read. Read are: {ENDINGS}.")
        folder = path.rpartition("/")[0]
        return [_found(system, folder, path, system.size(path), layout)], []
    if system.isdir(path or "/"):
        folder, sizes = path, files_below(system, path or "/")
    elif is_pattern(path):
        folder, sizes = fixed_part(path), files_matching(system, path)
    elif system.exists(path):
        raise JobError(
            f"Input {given!r} is a pipe or a device. Rows are read twice, once to plan: write them "
            "to a file first."
        )
    else:
        raise JobError(
            f"Input {given!r} does not exist: no file, no folder, and not a pattern. Check the "
            "path; on a cluster every machine must see it."
        )
    chosen = _select(system, given, reading_order(system, sizes))
    files = [_found(system, folder, found, sizes[found], layout) for found, layout in chosen.files]
    return files, chosen.warnings


def _select(system: AbstractFileSystem, given: str, paths: list[str]) -> _Selection:
    """Those of the files of an input that are to be read."""
    folders = {path.rpartition("/")[0] for path in paths}
    outputs = sorted(f for f in folders if system.isdir(f"{f}/{PRIVATE}"))
    inputs = [path for path in paths if path.rpartition("/")[0] not in outputs]
    layouts = [(path, layout_of(path)) for path in inputs]
    wanted = [(path, layout) for path, layout in layouts if layout is not None]
    others = [path for path, layout in layouts if layout is None]
    if not wanted and outputs:
        raise JobError(
            f"{given} is the output of a run. To run its rejects again, name "
            f"'{outputs[0]}/{PRIVATE}/rejects/*.jsonl'."
        )
    if not wanted:
        what = f"only files with other endings: {_some(others)}" if others else "no file"
        raise JobError(f"Input {given!r} gives {what}. Read are: {ENDINGS}.")
    kinds = {layout.kind: path for path, layout in reversed(wanted)}
    if len(kinds) > 1:
        raise JobError(
            f"{given} holds files of several kinds ({_some(sorted(kinds.values()))}), which may be "
            f"the same rows twice. Name one kind by a pattern ('.../*.{min(kinds)}'), or each of "
            "them as an input of its own."
        )
    warnings = [f"{folder} is the output of a run and is not read." for folder in outputs]
    if others:
        warnings.append(f"{given}: not read for their endings: {_some(others)}.")
    return _Selection(wanted, warnings)


def _some(paths: list[str]) -> str:
    shown = ", ".join(path.rpartition("/")[2] for path in paths[:_NAMED_IN_MESSAGES])
    more = len(paths) - _NAMED_IN_MESSAGES
    return f"{shown} and {more} more" if more > 0 else shown


def _found(
    system: AbstractFileSystem, folder: str, path: str, size: int | None, layout: Layout
) -> _Found:
    if size is None:
        raise JobError(f"{path}: the storage does not tell its size. Copy it somewhere else first.")
    local = isinstance(system, LocalFileSystem)
    url = path if local else system.unstrip_protocol(path)
    key = str(Path(path).resolve()) if local else url
    return _Found(key, url, name_below(folder, path), size, layout)


def _distinct(files: list[_Found]) -> list[str]:
    """The files' names, lengthened by folders of their URLs where two are the same.

    A name is a column of the output, so bytes that are no UTF-8 are spelled out in it.
    """
    urls = [redacted(os.fsencode(file.url).decode("utf-8", "backslashreplace")) for file in files]
    parts = [url.split("/") for url in urls]
    depths = [file.name.count("/") + 1 for file in files]
    while True:
        names = ["/".join(part[-depth:]) for part, depth in zip(parts, depths, strict=True)]
        counts = Counter(names)
        if len(counts) == len(names):
            return names
        depths = [depth + (counts[name] > 1) for depth, name in zip(depths, names, strict=True)]

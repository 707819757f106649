"""Folders that Hugging Face datasets' `save_to_disk` wrote: which files count, in which order.

Such a folder has a `state.json` that lists its Arrow files. Others may lie beside them (caches of
`map` and `filter`) and hold no rows of the set. A DatasetDict is a folder of such folders.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Final

from fsspec import AbstractFileSystem

from promptmill.schemas.errors import JobError
from promptmill.schemas.json_types import Json

STATE_FILE: Final = "/state.json"

DESCRIPTIONS: Final = (
    STATE_FILE,
    "/dataset_info.json",
    "/dataset_infos.json",
    "/dataset_dict.json",
)
"""Ends of the paths of files that describe a data set and hold no rows."""


def reading_order(system: AbstractFileSystem, paths: Collection[str]) -> list[str]:
    """The files of a folder, sorted by path; of a saved data set those it lists, as it lists them.

    Raises:
        JobError: a file that a data set lists is missing.
        OSError: a `state.json` cannot be read.
    """
    keys = {path: path for path in paths if not path.endswith(DESCRIPTIONS)}
    for state in (path for path in paths if path.endswith(STATE_FILE)):
        listed = _listed_files(json.loads(system.cat_file(state)))
        if listed is None:
            continue
        folder = state.removesuffix(STATE_FILE) + "/"
        for path in [path for path in keys if path.rpartition("/")[0] + "/" == folder]:
            del keys[path]
        for number, name in enumerate(listed):
            if folder + name not in paths:
                raise JobError(
                    f"{folder}{name} is missing, and {state} lists it as a part of the data set. "
                    "Copy the whole folder again."
                )
            keys[folder + name] = f"{folder}{number:09}"
    return sorted(keys, key=keys.__getitem__)


def _listed_files(state: Json) -> list[str] | None:
    """The Arrow files of a `state.json`; None: it is no description of a data set."""
    files = state.get("_data_files") if isinstance(state, dict) else None
    if not isinstance(files, list):
        return None
    return [str(file["filename"]) for file in files if isinstance(file, dict)]

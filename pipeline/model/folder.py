"""Where a model's files lie: a local folder, or the snapshot of a hub repository."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from promptmill.schemas.errors import JobError
from promptmill.schemas.json_types import JsonObject

_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A model's files as they lie on this machine."""

    path: Path
    name: str
    """As the user named the model."""
    revision: str | None = None
    """The commit of a hub repository; None for a folder of the user's."""
    listing: frozenset[str] = frozenset()
    """All file names, also those of a repository that were not downloaded (weights)."""

    def has(self, name: str) -> bool:
        """Whether a file lies in the folder."""
        return (self.path / name).is_file()

    def read_bytes(self, name: str) -> bytes | None:
        """A file's content; None where there is no such file.

        Raises:
            JobError: the file is there and cannot be read, or is only a Git LFS pointer.
        """
        try:
            data = (self.path / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise JobError(
                f"{self.path / name} cannot be read: {error.strerror}. Check its permissions."
            ) from error
        if data.startswith(_LFS_POINTER):
            raise JobError(
                f"{self.path / name} is a Git LFS pointer, not the file itself. Run `git lfs pull` "
                "in the folder, or name the model by its hub id."
            )
        return data

    def read_text(self, name: str) -> str | None:
        """A UTF-8 file's text; None where there is no such file.

        Raises:
            JobError: as `read_bytes`, or the bytes are no UTF-8.
        """
        data = self.read_bytes(name)
        try:
            return None if data is None else data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise JobError(
                f"{self.path / name} is not UTF-8: {error.reason}. Take the file that the model "
                "came with."
            ) from error

    def read_json(self, name: str) -> JsonObject | None:
        """A file's JSON object; None where there is no such file.

        Raises:
            JobError: as `read_text`, or the text is no JSON object.
        """
        text = self.read_text(name)
        if text is None:
            return None
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise JobError(
                f"{self.path / name} is not valid JSON ({error}). Copy the file again from where "
                "the model came from."
            ) from error
        if not isinstance(value, dict):
            raise JobError(
                f"{self.path / name} must hold a JSON object, found a {type(value).__name__}. "
                "Take the file that the model came with."
            )
        return value


def locate(model: str, revision: str | None = None) -> ModelFolder:
    """Find a model: an existing folder is taken as it is, anything else is a hub id.

    Args:
        model: a folder, or `name` or `owner/name` on the hub.
        revision: branch, tag or commit; only for hub ids.

    Raises:
        JobError: neither a folder nor something the hub gives.
    """
    path = Path(model).expanduser()
    if path.is_dir():
        listing = frozenset(entry.name for entry in path.iterdir() if entry.is_file())
        return ModelFolder(path.resolve(), model, listing=listing)
    if path.exists():
        raise JobError(f"--model {model} is a file. Name the folder that holds the model's files.")
    if _HUB_ID.fullmatch(model) is None or model.startswith("."):
        raise JobError(
            f"--model {model}: there is no such folder, and it is no hub id (name or owner/name). "
            "Check the path."
        )
    from promptmill.pipeline.model import hub  # imports an HTTP client, for hub ids only

    snapshot = hub.fetch(model, revision)
    return ModelFolder(snapshot.path, model, snapshot.commit, snapshot.listing)

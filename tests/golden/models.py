"""Encoders for the model folders of golden cases; a model's tokenizer is loaded once."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.model.load import load_bundle
from promptmill.schemas.options import JobOptions

SHARED = Path(os.environ.get("PROMPTMILL_SHARED", Path(__file__).parents[3] / "shared"))
CLOCK = datetime(2026, 1, 15, 12, 0, 0, tzinfo=UTC)
"""Where the reference's clock stood."""


@functools.cache
def models_folder() -> Path:
    """The unpacked model folders."""
    command = [sys.executable, str(SHARED / "unpack_models.py")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Path(done.stdout.strip())


class Encoders:
    """Builds encoders; those of one model share what is costly to load."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder or models_folder()
        self._first: dict[tuple[str, str], Encoder] = {}
        self._made: dict[str, Encoder] = {}

    def folder(self, model: str) -> Path:
        """Where a case's model lies; the archive may have moved since the case was made."""
        given = Path(model)
        return given if given.is_absolute() and given.is_dir() else self._folder / model

    def get(self, model: str, **options: object) -> Encoder:
        """An encoder for a model folder and job options."""
        job = JobOptions.model_validate(
            {"input": ("case",), "output": "out", "model": str(self.folder(model)), **options}
        )
        key = job.model_dump_json()
        if key not in self._made:
            base = self._first.get((job.model, job.tokenizer_mode))
            if base is None:
                base = Encoder(load_bundle(job), job, CLOCK)
                self._first[job.model, job.tokenizer_mode] = base
                self._made[key] = base
            else:
                self._made[key] = base.with_options(job, CLOCK)
        return self._made[key]

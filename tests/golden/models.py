"""Encoders for the model folders of golden cases; a model's tokenizer is loaded once."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from promptmill.pipeline.encoder import Encoder
from promptmill.pipeline.model.load import load_bundle
from promptmill.schemas.options import EngineName, JobOptions

SHARED = Path(os.environ.get("PROMPTMILL_SHARED", Path(__file__).parents[3] / "shared"))
CLOCK = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
"""Where the reference's clock stood; the sweep's stood elsewhere, see `Encoders`."""


@functools.cache
def models_folder() -> Path:
    """The unpacked model folders."""
    command = [sys.executable, str(SHARED / "unpack_models.py")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Path(done.stdout.strip())


HARMONY = "gptoss_harmony"
"""A folder that the archive leaves out: `gptoss` as a model of the type gpt_oss."""


@functools.cache
def harmony_folder(plain: Path) -> Path:
    """`gptoss` with the model type that takes the harmony format."""
    folder = Path(tempfile.mkdtemp(prefix="promptmill-golden-")) / HARMONY
    shutil.copytree(plain, folder)
    config = json.loads((plain / "config.json").read_text(encoding="utf-8"))
    config |= {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss"}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


class Encoders:
    """Builds encoders; those of one model share what is costly to load."""

    engine = EngineName.AUTO
    """What tokenizes; the command sets it for all."""

    def __init__(self, folder: Path | None, clock: datetime = CLOCK) -> None:
        self._folder = folder or models_folder()
        self._clock = clock
        self._first: dict[tuple[str, str], Encoder] = {}
        self._made: dict[str, Encoder] = {}

    def folder(self, model: str) -> Path:
        """Where a case's model lies; the archive may have moved since the case was made."""
        given = Path(model)
        found = given if given.is_absolute() and given.is_dir() else self._folder / model
        if not found.is_dir() and model == HARMONY:
            found = harmony_folder(self._folder / "gptoss")
        return found

    def get(self, model: str, **options: object) -> Encoder:
        """An encoder for a model folder and job options."""
        job = JobOptions.model_validate(
            {
                "input": ("case",),
                "output": "out",
                "model": str(self.folder(model)),
                "engine": self.engine,
                **options,
            }
        )
        key = job.model_dump_json()
        if key not in self._made:
            base = self._first.get((job.model, job.tokenizer_mode))
            if base is None:
                base = Encoder(load_bundle(job), job, self._clock)
                self._first[job.model, job.tokenizer_mode] = base
                self._made[key] = base
            else:
                self._made[key] = Encoder(base.bundle, job, self._clock, base.tokenizer)
        return self._made[key]

"""A job made fit for machines other than the one that submits it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from promptmill.pipeline.media.own_family import family_source
from promptmill.pipeline.model.bundle_cache import load_bundle_cached
from promptmill.pipeline.read.inputs import find_inputs
from promptmill.schemas.errors import JobError
from promptmill.schemas.json_types import JsonObject
from promptmill.schemas.options import JobOptions
from promptmill.schemas.redact import redacted
from promptmill.schemas.run import RunRecord
from promptmill.workers.environment import ONE_THREAD
from promptmill.workers.fingerprint import (
    NOT_IN_THE_BYTES,
    another_job,
    differences,
    model_identity,
    model_named,
)
from promptmill.workers.output_folder import OutputFolder

RAY_HERE: Final = "auto"
"""The address of the cluster for a job that runs on it."""
NAMED: Final = {"input", "model", "revision", "clock"}
"""In the bytes of the output by what they stand for; only their names are known here."""
STOP_SECONDS: Final = "20"
"""What a job on the cluster is given to end after `ray job stop`."""


@dataclass(frozen=True, slots=True)
class Shipped:
    """A job for the cluster."""

    options: JobOptions
    warnings: tuple[str, ...]

    @property
    def output_key(self) -> str:
        """Names the output folder."""
        return _short_hash(self.options.output)

    @property
    def job_key(self) -> str:
        """Names what decides the bytes, as far as it is known before model and input are read."""
        chosen = self.options.model_dump(mode="json", exclude=set(NOT_IN_THE_BYTES - NAMED))
        return _short_hash(json.dumps(chosen, sort_keys=True))


def ship(options: JobOptions) -> Shipped:
    """Options that mean the same in another folder of another machine.

    Paths become absolute; a template or a media family in a file becomes its text.

    Raises:
        JobError: they cannot mean the same there, or would show credentials to others.
    """
    if options.local:
        raise JobError("--local works in one process, without a cluster. Use promptmill run.")
    for name in (*options.input, options.output, options.model):
        if redacted(name) != name:
            raise JobError(
                f"{redacted(name)} holds credentials, and everyone who sees the cluster's "
                "dashboard sees a job's command. Give them to the cluster's machines instead, as "
                "environment variables."
            )
    root = options.allowed_media_root
    model_here = Path(options.model).exists()
    changed = options.model_copy(
        update={
            "input": tuple(_absolute(name) for name in options.input),
            "output": _absolute(options.output),
            "model": _absolute(options.model) if model_here else options.model,
            "allowed_media_root": None if root is None else _absolute(root),
            "chat_template": _template(options.chat_template),
            "media_family": family_source(options.media_family),
            "address": RAY_HERE,
        }
    )
    return Shipped(changed, tuple(_warnings(changed)))


def check_output(job: Shipped) -> None:
    """Look for another job's run in the output folder, as far as this machine sees it.

    The job on the cluster does the same, and knows model and input for certain.

    Raises:
        JobError: its options, its model or its input files differ in what decides bytes.
    """
    options = job.options
    if "://" in options.output:
        return
    try:
        record = OutputFolder(Path(options.output)).read_record()
    except OSError:
        return  # not seen here
    if record is None:
        return
    there = record.identity.get("options")
    if not isinstance(there, Mapping):
        return
    here = options.model_dump(mode="json", exclude=set(NOT_IN_THE_BYTES))
    unknown = {"max_model_len"} if options.max_model_len is None else set()
    if options.chat_template is not None and not _is_text(options.chat_template):
        unknown.add("chat_template")  # one of the model's, or a file of the cluster's
    then, now = ({k: v for k, v in one.items() if k not in unknown} for one in (there, here))
    lines = [*differences(then, now, "options"), *_of_input(record, options)]
    lines += _of_model(record, options)
    if lines:
        raise another_job(options.output, model_named(record, options.model, lines))


def _of_input(record: RunRecord, options: JobOptions) -> list[str]:
    """Other files, or files of another size; nothing where they are not seen here."""
    before = record.identity.get("input")
    if not isinstance(before, list):
        return []
    try:
        files = find_inputs(options.input).files
    except JobError:
        return []
    sizes = [{"name": file["name"], "size": file["size"]} for file in before]
    return list(differences(sizes, [{"name": f.name, "size": f.size} for f in files], "input"))


def _of_model(record: RunRecord, options: JobOptions) -> list[str]:
    """What differs in a model of another name; nothing where it is not seen here.

    The same name is taken for the same model: it may be resolved there with other libraries.
    """
    named = str(record.options.get("model"))
    if options.model in (named, str(Path(record.directory, named))):
        return []
    try:
        now = model_identity(load_bundle_cached(options))
    except JobError:
        return []
    return list(differences({part: record.identity.get(part) for part in now}, now))


def read_runtime_env(path: Path | None, wheel: Path) -> JsonObject:
    """The job's runtime environment: the file's, with our wheel and our variables added.

    Raises:
        JobError: the file is none.
    """
    env: object = {}
    if path is not None:
        try:
            env = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise JobError(f"--runtime-env {path} cannot be read: {error}") from error
    if not isinstance(env, dict):
        raise JobError(f"--runtime-env {path}: expected keys as `pip:` or `env_vars:`.")
    variables, modules = env.get("env_vars") or {}, env.get("py_modules") or []
    if not isinstance(variables, dict) or not isinstance(modules, list):
        raise JobError(f"--runtime-env {path}: env_vars are pairs, py_modules is a list.")
    ours = {**ONE_THREAD, "RAY_JOB_STOP_WAIT_TIME_S": STOP_SECONDS}
    return {**env, "py_modules": [*modules, str(wheel)], "env_vars": {**ours, **variables}}


def _absolute(name: str) -> str:
    return name if "://" in name else str(Path(name).absolute())


def _template(given: str | None) -> str | None:
    """A template's file as its text; a text, or the name of one of the model's, as it is."""
    if given is None or _is_text(given) or not Path(given).is_file():
        return given
    return Path(given).read_text(encoding="utf-8")


def _is_text(template: str) -> bool:
    return any(mark in template for mark in "{}\n")


def _warnings(options: JobOptions) -> list[str]:
    named = {"-i": options.input, "--model": (options.model,), "-o": (options.output,)}
    named["--allowed-media-root"] = (options.allowed_media_root or "",)
    here = [
        f"{option} {name}"
        for option, names in named.items()
        for name in names
        if name and "://" not in name and _is_here(Path(name), new=option == "-o")
    ]
    if not here:
        return []
    return [
        f"warning: {', '.join(here[:3])}{' and others' if len(here) > 3 else ''}: a path of this "
        "machine. The cluster's machines must see the same files under the same name (a shared "
        "file system); nothing is copied there."
    ]


def _is_here(path: Path, *, new: bool) -> bool:
    """Whether a path names something of this machine; an output folder is yet to be made."""
    return path.exists() or (new and path.parent.exists())


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]

"""The job from its four sources: defaults, `--config` file, `--set`, options; the later wins."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import typer
import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from promptmill.schemas.json_types import Json, JsonObject
from promptmill.schemas.options import JobOptions
from promptmill.workers.arguments import option_name

_TEXT: Final = "tag:yaml.org,2002:str"


class _Loader(yaml.SafeLoader):
    """YAML where `2:16` is text. It is 136 otherwise: numbers of base sixty, as times are."""


_Loader.yaml_implicit_resolvers = {
    first: [(_TEXT, re.compile(r"\d+:\d+")), *known] if first.isdigit() else known
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}

_NEEDED: Final = {
    "input": "missing; give -i, files or folders of rows",
    "output": "missing; give -o, a folder to write to",
    "model": "missing; give --model, a folder or a hub id",
}

CODE = {"media_family"}
"""Options that are code: a job file, which others may have written, must not bring any."""


def read_job(
    given: Mapping[str, Json], *, config: Path | None = None, settings: Iterable[str] = ()
) -> JobOptions:
    """Put a job together.

    Args:
        given: options of the command line by field name, without those not given.
        config: a YAML (or JSON) file of options.
        settings: `name=value` or `name.key=value`, values in YAML.

    Raises:
        typer.BadParameter: an unknown name or a value that does not fit (exit code 2).
    """
    job = _read_config(config) if config is not None else {}
    for setting in settings:
        _apply(job, setting)
    for field in CODE & job.keys():
        raise typer.BadParameter(
            f"{option_name(field)} is code that is run, so it is taken from the command line only."
        )
    job.update(given)
    try:
        return JobOptions.model_validate(job)
    except ValidationError as error:
        raise typer.BadParameter(_explain(error)) from None


def _read_config(path: Path) -> JsonObject:
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise typer.BadParameter(f"--config {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"--config {path} is no YAML: {error}") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise typer.BadParameter(f"--config {path}: expected options by name, as `model: ...`")
    return {_field(str(name), f"--config {path}"): value for name, value in data.items()}


def _apply(job: JsonObject, setting: str) -> None:
    path, equals, text = setting.partition("=")
    if not equals or not path:
        raise typer.BadParameter(f"--set {setting}: expected name=value")
    name, *keys = path.split(".")
    try:
        value = yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise typer.BadParameter(f"--set {setting}: the value is no YAML: {error}") from None
    field = _field(name, "--set")
    if not keys:
        job[field] = value
        return
    inner = job[field] = dict(_mapping(job.get(field), setting))
    for key in keys[:-1]:
        deeper: JsonObject = dict(_mapping(inner.get(key), setting))
        inner[key] = deeper
        inner = deeper
    inner[keys[-1]] = value


def _mapping(value: Json, setting: str) -> JsonObject:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise typer.BadParameter(f"--set {setting}: there are no keys below a plain value")
    return value


def _field(name: str, where: str) -> str:
    """The field of an option, spelled with dashes or underscores."""
    field = name.strip().removeprefix("--").replace("-", "_")
    known = list(JobOptions.model_fields)
    if field not in known:
        near = difflib.get_close_matches(field, known, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise typer.BadParameter(f"{where}: there is no option {name!r}.{hint}")
    return field


def _explain(error: ValidationError) -> str:
    """One line for each thing that is wrong, named as the option."""
    return "; ".join(
        f"{option_name(str(item['loc'][0]))}: {_problem(item)}" if item["loc"] else _problem(item)
        for item in error.errors()
    )


def _problem(item: ErrorDetails) -> str:
    if item["type"] == "missing":
        return _NEEDED[str(item["loc"][0])]
    return item["msg"].removeprefix("Value error, ")

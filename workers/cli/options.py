"""Command line options made from the fields of `JobOptions`, so that the two cannot drift.

A field's docstring is its help; every option defaults to "not given", so that the job file and
the model's defaults show through.
"""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Union, get_args, get_origin

import typer
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from promptmill.schemas.json_types import Json, JsonObject
from promptmill.schemas.options import JobOptions
from promptmill.workers.arguments import arguments, no_option_name, option_name
from promptmill.workers.cli.job import read_job

SHORT = {"input": "-i", "output": "-o"}
"""As vLLM's run-batch has them."""

Config = Annotated[
    Path | None, typer.Option("--config", help="A YAML file of these options.", metavar="FILE")
]
MORE = "More inputs: what a shell makes of -i *.jsonl."
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="One option as name=value or name.key=value; over --config, under the options.",
        metavar="NAME=VALUE",
    ),
]


def takes_job(
    command: Callable[..., None],
    *,
    name: str | None = None,
    writes: bool = True,
    helps: Mapping[str, str] = MappingProxyType({}),
    hidden: frozenset[str] = frozenset(),
) -> Callable[..., None]:
    """A typer command with all options of a job; `command` gets the validated job.

    Args:
        command: takes the job, and options of its own as keywords.
        name: of the command; that of the function when not given.
        writes: without it neither an output nor a model need be named.
        helps: of options that mean something else here, by field name; `more` is the argument.
        hidden: fields whose options are taken and not shown.
    """
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

    def run(
        more: list[str] | None, config: Path | None, settings: list[str] | None, **given: object
    ) -> None:
        more_options = {parameter.name: given.pop(parameter.name) for parameter in own}
        values: JsonObject = {} if writes else {"output": "", "model": ""}
        values |= {name: _parsed(name, value) for name, value in given.items() if _was_given(value)}
        if more:
            values["input"] = [*(given["input"] or ()), *more]  # type: ignore[misc]  # list of str
        command(read_job(values, config=config, settings=settings or ()), **more_options)

    parameters = [
        _parameter(name, field, helps.get(name) or _help(field), hidden=name in hidden)
        for name, field in JobOptions.model_fields.items()
    ]
    inputs = typer.Argument(help=helps.get("more", MORE), metavar="[IN]...")
    more = Annotated[list[str] | None, inputs]
    signature = inspect.Signature(
        [
            inspect.Parameter("more", _KEYWORD, default=None, annotation=more),
            *own,
            *parameters,
            inspect.Parameter("config", _KEYWORD, default=None, annotation=Config),
            inspect.Parameter("settings", _KEYWORD, default=None, annotation=Settings),
        ]
    )
    run.__signature__ = signature  # type: ignore[attr-defined]  # what typer reads
    run.__doc__, run.__name__ = command.__doc__, name or command.__name__
    return run


def as_arguments(job: JobOptions) -> list[str]:
    """The command line that gives this job; what is as by default is left out."""
    return ["=".join(option) for option in arguments(job.model_dump(mode="json"))]


_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def _parameter(name: str, field: FieldInfo, text: str, *, hidden: bool) -> inspect.Parameter:
    kind = option_type(field.annotation)
    option = option_name(name)
    names = [option, *([SHORT[name]] if name in SHORT else [])]
    metavar = "JSON" if kind is dict else None
    if kind is bool:
        names = [f"{option}/{no_option_name(name)}"]
    annotation: object = str if kind is dict else kind
    declared = typer.Option(*names, help=text, metavar=metavar, show_default=False, hidden=hidden)
    return inspect.Parameter(
        name,
        _KEYWORD,
        default=None,
        annotation=Annotated[annotation | None, declared],  # type: ignore[operator]  # a type
    )


def option_type(annotation: object) -> object:
    """What typer is to read for a field: int, float, bool, str, an enum, list[str] or dict (JSON).

    What is none of the first ones is taken as text, and pydantic decides.
    """
    origin = get_origin(annotation)
    if origin is Annotated:
        return option_type(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        kinds = {option_type(a) for a in get_args(annotation) if a is not type(None)}
        return kinds.pop() if len(kinds) == 1 else str
    if origin in (tuple, list):
        return list[str]
    if origin is dict:
        return dict
    simple = isinstance(annotation, type) and issubclass(annotation, (bool, int, float, StrEnum))
    return annotation if simple else str


def _help(field: FieldInfo) -> str:
    text = field.description or ""
    default = field.default
    if default in (None, PydanticUndefined, ()) or isinstance(default, bool):
        return text + (" On by default." if default is True else "")
    return f"{text} Default: {default}."


def _was_given(value: object) -> bool:
    return value is not None and value != []


def _parsed(name: str, value: object) -> Json:
    """A value as typer read it; JSON options are parsed here."""
    if option_type(JobOptions.model_fields[name].annotation) is not dict:
        return value  # type: ignore[return-value]  # int, float, bool, str or list of str
    try:
        return json.loads(str(value))  # type: ignore[no-any-return]  # JSON is what it gives
    except json.JSONDecodeError as error:
        raise typer.BadParameter(
            f"{option_name(name)} is no JSON: {error}. Names stand in double quotes: "
            """'{"name": true}'"""
        ) from None

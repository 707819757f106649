"""Which chat templates a folder carries, and under which names."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import JobError

Load: TypeAlias = Callable[..., ModelBundle]
MakeFolder: TypeAlias = Callable[..., Path]

FAST = {"tokenizer_class": "PreTrainedTokenizerFast"}
NAMED = [
    {"name": "default", "template": "d"},
    {"name": "tool_use", "template": "t"},
    {"name": "rag", "template": "r"},
]


@pytest.mark.parametrize(
    ("files", "templates", "named"),
    [
        ({"tokenizer_config.json": FAST}, {}, False),
        ({"tokenizer_config.json": {**FAST, "chat_template": "c"}}, {"default": "c"}, False),
        ({"tokenizer_config.json": {**FAST, "chat_template": ""}}, {"default": ""}, False),
        (
            {"tokenizer_config.json": {**FAST, "chat_template": NAMED}},
            {"default": "d", "tool_use": "t", "rag": "r"},
            True,
        ),
        (
            {
                "tokenizer_config.json": {**FAST, "chat_template": "c"},
                "chat_template.jinja": "file",
            },
            {"default": "file"},
            False,
        ),
        (
            {
                "tokenizer_config.json": {**FAST, "chat_template": NAMED},
                "chat_template.jinja": "file",
                "additional_chat_templates/other.jinja": "o",
            },
            {"default": "file", "other": "o"},
            True,
        ),
    ],
)
def test_tokenizer_templates(
    load: Load,
    make_folder: MakeFolder,
    files: dict[str, object],
    templates: dict[str, str],
    named: bool,
) -> None:
    bundle = load(make_folder(files))
    assert bundle.chat_templates == templates
    assert bundle.templates_are_named is named
    assert bundle.processor_template is None


LEGACY = {"chat_template.json": {"chat_template": "from the processor"}}


@pytest.mark.parametrize(
    ("base", "files", "template"),
    [
        ("chatml", LEGACY, None),
        ("vl", LEGACY, "from the processor"),
        ("vl", {}, None),
        ("vl", {"chat_template.jinja": "file"}, "file"),
        ("vl", {**LEGACY, "chat_template.jinja": "file"}, "from the processor"),
        ("vl", {**LEGACY, "additional_chat_templates/a.jinja": "a"}, None),
        ("vl", {**LEGACY, "processor_config.json": {"chat_template": "key"}}, "key"),
        (
            "chatml",
            {**LEGACY, "processor_config.json": {"processor_class": "P"}},
            "from the processor",
        ),
        (
            "chatml",
            {**LEGACY, "processor_config.json": {"auto_map": {"AutoProcessor": "p.P"}}},
            "from the processor",
        ),
    ],
)
def test_processor_templates(
    load: Load,
    make_folder: MakeFolder,
    base: str,
    files: dict[str, object],
    template: str | None,
) -> None:
    assert load(make_folder(files, base)).processor_template == template


def test_what_is_no_template_is_refused(load: Load, make_folder: MakeFolder) -> None:
    folder = make_folder({"chat_template.json": {"chat_template": 5}}, "vl")
    with pytest.raises(JobError, match=r"chat_template\.json: chat_template must be a string"):
        load(folder)


def test_templates_have_a_hash_of_their_own(load: Load, make_folder: MakeFolder) -> None:
    first = load(make_folder({"chat_template.jinja": "a"}))
    second = load(make_folder({"chat_template.jinja": "b"}))
    assert first.sha256() == second.sha256()
    assert first.sha256(templates=True) != second.sha256(templates=True)

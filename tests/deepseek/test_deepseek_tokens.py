"""Tokenizers that do not belong to a prompt format are refused, saying why."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from promptmill.pipeline.model.deepseek_tokens import (
    IMAGE_ID,
    IMAGE_SPELLINGS,
    SYSTEM,
    V4,
    V4_SPELLINGS,
    V41,
    added_ids,
    check_tokens,
    image_spelling,
)
from promptmill.pipeline.model.load import load_bundle
from promptmill.schemas.bundle import ModelBundle
from promptmill.schemas.errors import JobError
from promptmill.schemas.options import JobOptions

MakeBundle = Callable[..., ModelBundle]
TOKENS = {spelling: i for i, spelling in enumerate((*V4_SPELLINGS, SYSTEM))}


def check(make_bundle: MakeBundle, mode: str, tokens: dict[str, int]) -> None:
    bundle = make_bundle(mode, tokens)
    check_tokens(bundle.name, mode, bundle.backend or "")


def test_spellings_are_the_library_s(library: ModuleType) -> None:
    kinds = vars(library.SpecialToken).items()
    theirs = {kind.default_str() for name, kind in kinds if name[0].isupper()}
    assert theirs == {*V4_SPELLINGS, SYSTEM, IMAGE_SPELLINGS[0]}
    assert library.IMAGE_SPECIAL_TOKEN_ID == IMAGE_ID


@pytest.mark.parametrize("spelling", V4_SPELLINGS)
def test_every_token_is_needed(make_bundle: MakeBundle, spelling: str) -> None:
    tokens = {name: i for name, i in TOKENS.items() if name != spelling}
    with pytest.raises(JobError, match=f"no control token .*{spelling}"):
        check(make_bundle, V4, tokens)


def test_v4_needs_neither_system_nor_image(make_bundle: MakeBundle) -> None:
    check(make_bundle, V4, {name: i for name, i in TOKENS.items() if name != SYSTEM})


@pytest.mark.parametrize("spelling", IMAGE_SPELLINGS)
def test_an_image_has_its_id_in_v41(make_bundle: MakeBundle, spelling: str) -> None:
    check(make_bundle, V41, {**TOKENS, spelling: IMAGE_ID})
    with pytest.raises(JobError, match=f"{spelling} is 129279"):
        check(make_bundle, V41, {**TOKENS, spelling: 129279})
    with pytest.raises(JobError, match="no image token"):
        check(make_bundle, V41, TOKENS)


def test_the_released_files_are_told_apart(models: Path) -> None:
    folders = {
        "deepseek_v4": (True, False),  # as published for V4
        "deepseek_recipe_v4": (True, False),
        "deepseek_recipe_v41": (True, True),
        "deepseek_v3": (False, False),
    }
    for folder, fits in folders.items():
        backend = (models / folder / "tokenizer.json").read_text(encoding="utf-8")
        for mode, fit in zip((V4, V41), fits, strict=True):
            if fit:
                check_tokens(folder, mode, backend)
            else:
                with pytest.raises(JobError, match=f"{folder}: its tokenizer is not that of"):
                    check_tokens(folder, mode, backend)
    v41 = (models / "deepseek_recipe_v41" / "tokenizer.json").read_text(encoding="utf-8")
    assert image_spelling(added_ids(v41)) == "<｜image｜>"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("truncation", {"max_length": 3, "strategy": "LongestFirst", "stride": 0}),
        ("padding", {"strategy": {"Fixed": 8}, "pad_id": 0, "pad_token": "x"}),
    ],
)
def test_saved_limits_are_refused(
    tiny_models: Path, tmp_path: Path, name: str, value: object
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_models / "chatml", folder, copy_function=shutil.copyfile)
    folder.chmod(0o755)
    path = folder / "tokenizer.json"
    saved = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**saved, name: value}), encoding="utf-8")
    options = JobOptions(input=("rows",), output="out", model=str(folder), tokenizer_mode=V4)
    with pytest.raises(JobError, match=f"saved with {name}"):
        load_bundle(options)

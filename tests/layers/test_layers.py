"""Imports point one way, and third-party libraries stay where they belong."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = {"schemas": set[str](), "pipeline": {"schemas"}, "workers": {"pipeline", "schemas"}}
OURS = {"schemas", "pipeline", "workers", "static"}
HOMES = {
    "ray": ("workers/",),
    "typer": ("workers/cli/",),
    "jinja2": ("pipeline/render/", "workers/report/page.py"),  # chat templates; the page
    "transformers": ("pipeline/model/",),
    "mistral_common": ("pipeline/model/", "pipeline/engines/"),
    "deepseek_recipe": ("pipeline/render/deepseek.py", "pipeline/decode/"),
    "tokenizers": ("pipeline/model/", "pipeline/engines/"),
    "fastokens": ("pipeline/engines/natives.py",),
    "gigatoken": ("pipeline/engines/natives.py",),
    "urllib3": ("workers/verify/client.py",),
    "pyarrow": ("schemas/columns.py", "pipeline/read/", "pipeline/write/", "workers/"),
}
"""Library -> the only places that may import it."""


def modules() -> list[Path]:
    return sorted(p for layer in LAYERS for p in (ROOT / layer).rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            yield node.module


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    place = path.relative_to(ROOT).as_posix()
    layer = place.split("/")[0]
    for name in imports(path):
        first, *rest = name.split(".")
        assert first not in OURS, f"import promptmill.{name}, not {name}"
        if first == "promptmill":
            assert rest[0] in LAYERS[layer] | {layer, "static"}, f"{layer} must not import {name}"
        elif first in HOMES:
            assert place.startswith(HOMES[first]), f"{first} is imported only in {HOMES[first]}"


def test_every_package_is_listed() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = {
        "promptmill." + p.parent.relative_to(ROOT).as_posix().replace("/", ".")
        for layer in (*LAYERS, "static")
        for p in (ROOT / layer).rglob("__init__.py")
    }
    assert sorted(listed) == sorted(found)


def test_everything_static_is_shipped() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = settings["package-data"]["promptmill.static"]
    shipped = {path for pattern in patterns for path in (ROOT / "static").glob(pattern)}
    files = {p for p in (ROOT / "static").rglob("*") if p.is_file() and p.parent != ROOT / "static"}
    assert files
    assert {p for p in files if "__pycache__" not in p.parts} <= shipped


def test_modules_stay_small() -> None:
    long = {str(p): n for p in modules() if (n := len(p.read_text().splitlines())) > 320}
    assert not long

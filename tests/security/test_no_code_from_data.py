"""Nothing that could run what a file says, but for the places that are named here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("schemas", "pipeline", "workers")
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib", "runpy"}
CALLS = {"eval", "exec", "execfile", "__import__"}
ATTRIBUTES = {
    ("yaml", "load"),
    ("yaml", "unsafe_load"),
    ("yaml", "full_load"),
    ("torch", "load"),
    ("np", "load"),
    ("os", "system"),
}
ALLOWED = {
    ("pipeline/media/own_family.py", "exec"),  # the file of --media-family: the command line only
    ("pipeline/render/environment.py", "marshal"),  # of values that were marshalled just before
    ("pipeline/parse/tools.py", "marshal"),  # the same
    ("workers/cli/job.py", "yaml.load"),  # with a loader made of yaml.SafeLoader
    ("workers/trial.py", "pickle"),  # between a worker and its own child, through a pipe
}


def uses(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names):
                yield from (alias.name for alias in names if alias.name in MODULES)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in MODULES:
                yield module
            case ast.Call(func=ast.Name(name)) if name in CALLS:
                yield name
            case ast.Attribute(value=ast.Name(owner), attr=name) if (owner, name) in ATTRIBUTES:
                yield f"{owner}.{name}"
            case ast.keyword(arg="allow_pickle" | "trust_remote_code" | "shell", value=value):
                if not (isinstance(value, ast.Constant) and value.value is False):
                    yield str(node.arg)


def test_only_known_places_do_it() -> None:
    found = {
        (path.relative_to(ROOT).as_posix(), use)
        for layer in LAYERS
        for path in (ROOT / layer).rglob("*.py")
        for use in uses(path)
    }
    assert found == ALLOWED


@pytest.mark.parametrize(
    "text",
    ["import pickle", "eval('1')", "yaml.load(x)", "np.load(x, allow_pickle=True)", "f(shell=1)"],
)
def test_the_search_finds(tmp_path: Path, text: str) -> None:
    (tmp_path / "code.py").write_text(text)
    assert list(uses(tmp_path / "code.py"))

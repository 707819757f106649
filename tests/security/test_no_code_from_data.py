"""Nothing that could run what a file says, but for the places that are named here."""

from __future__ import annotations

import ast
import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import BIN

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
    ("pipeline/render/to_json.py", "marshal"),  # of values that were marshalled just before
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


class Bomb:
    """What a pickle runs when it is read."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("RAN-pickle",)


NAMES = (
    *("promptmill", "schemas", "pipeline", "workers", "numpy", "pyarrow", "tokenizers", "jinja2"),
    *("msgspec", "psutil", "yaml", "fsspec", "zstandard", "transformers", "torch", "PIL", "rows"),
    *("sitecustomize", "usercustomize", "conftest", "encoding", "tokenization_own"),
)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder of data and a model, full of code that leaves a trace where it is run."""
    model = tmp_path / "model"
    shutil.copytree(ROOT / "static" / "demo" / "model", model)
    for folder in (tmp_path, model):
        for name in NAMES:
            (folder / f"{name}.py").write_text(f"import os\nos.mkdir('RAN-{name}')\n")
        for name in ("pytorch_model.bin", "tokenizer.pkl", "rows.pkl", "optimizer.pt"):
            (folder / name).write_bytes(pickle.dumps(Bomb()))
    own = "tokenization_own.Own"
    for name, auto_map in {
        "config.json": {"AutoConfig": own, "AutoModelForCausalLM": own},
        "tokenizer_config.json": {"AutoTokenizer": [None, own]},
        "processor_config.json": {"AutoProcessor": own},
    }.items():
        path = model / name
        config = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**config, "auto_map": auto_map, "trust_remote_code": True}))
    (tmp_path / "rows.jsonl").write_text('{"text": "hello"}\n')
    return tmp_path


@pytest.mark.parametrize(
    "where", [["--local"], pytest.param(["--workers", "1"], marks=pytest.mark.ray)]
)
def test_code_beside_rows_and_model_is_not_run(where: list[str], hostile: Path) -> None:
    words = ["run", "-i", "rows.jsonl", "-o", "out", "--model", "model", "--text-column", "text"]
    assert "1 row out" in promptmill(*words, *where, folder=hostile)
    record = hostile / "out" / "_promptmill" / "run.json"
    run = json.loads(record.read_text())
    run["options"]["media_family"] = "import os\nos.mkdir('RAN-family')\n"
    record.write_text(json.dumps(run))
    assert "hello" in promptmill("inspect", "out", "--row", "0", folder=hostile)
    assert not list(hostile.rglob("RAN-*"))


def promptmill(*words: str, folder: Path) -> str:
    done = subprocess.run(
        [BIN / "promptmill", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_code_would_leave_a_trace(hostile: Path) -> None:
    code = "import numpy, pickle; pickle.load(open('rows.pkl', 'rb'))"
    subprocess.run([sys.executable, "-c", code], cwd=hostile, check=True)
    assert {path.name for path in hostile.rglob("RAN-*")} >= {"RAN-numpy", "RAN-pickle"}

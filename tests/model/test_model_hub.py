"""The hub path, against a server that speaks the hub's protocol.

Each fetch is a process of its own, as huggingface_hub reads its settings on import.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

WEIGHTS = {
    "consolidated.safetensors": b"w" * 1000,
    "model-00001-of-00002.safetensors": b"w" * 1000,
    "pytorch_model.bin": b"w" * 1000,
    "model.gguf": b"w" * 1000,
    "original/consolidated.00.pth": b"w" * 1000,
    "README.md": b"#",
    "modeling_own.py": b"raise SystemExit('remote code was run')",
}
FETCH = """
import json, sys
from promptmill.pipeline.model.folder import locate
from promptmill.schemas.errors import JobError
try:
    found = locate(*sys.argv[1:])
    print(json.dumps({"path": str(found.path), "revision": found.revision, "name": found.name,
                      "listing": sorted(found.listing)}))
except JobError as error:
    print(json.dumps({"error": str(error)}))
"""


@pytest.fixture
def repository(hub_server: Any, tiny_models: Path) -> str:
    """chatml with weights, code and templates beside it."""
    files = {path.name: path.read_bytes() for path in (tiny_models / "chatml").iterdir()}
    extra = {"additional_chat_templates/tool_use.jinja": b"tools", "chat_template.jinja": b"x"}
    hub_server.repositories["org/chatml"] = {**files, **extra, **WEIGHTS}
    return "org/chatml"


def fetch(
    cache: Path, endpoint: str, *arguments: str, script: str = FETCH, **env: str
) -> dict[str, Any]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING"))}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**kept, "HF_HOME": str(cache), "HF_ENDPOINT": endpoint, **env},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_only_wanted_files_come_and_the_commit_is_recorded(
    hub_server: Any, repository: str, tmp_path: Path
) -> None:
    found = fetch(tmp_path, hub_server.endpoint, repository)
    assert found["revision"] == hub_server.commit(repository)
    wanted = {
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "additional_chat_templates/tool_use.jinja",
    }
    assert hub_server.downloads == wanted
    on_disk = {p.relative_to(found["path"]).as_posix() for p in Path(found["path"]).rglob("*.*")}
    assert on_disk == wanted
    assert set(found["listing"]) == wanted | set(WEIGHTS)


@pytest.mark.parametrize("revision", [None, "v1", "commit"])
def test_the_cache_serves_without_the_hub(
    hub_server: Any, repository: str, tmp_path: Path, revision: str | None
) -> None:
    commit = hub_server.commit(repository)
    asked = [] if revision is None else [commit if revision == "commit" else revision]
    online = fetch(tmp_path, hub_server.endpoint, repository, *asked)
    seen = len(hub_server.requests)
    offline = fetch(tmp_path, hub_server.endpoint, repository, *asked, HF_HUB_OFFLINE="1")
    unreachable = fetch(tmp_path, "http://127.0.0.1:9", repository, *asked)
    assert online == offline == unreachable
    assert online["revision"] == commit
    assert len(hub_server.requests) == seen


def test_a_new_commit_is_fetched(hub_server: Any, repository: str, tmp_path: Path) -> None:
    before = fetch(tmp_path, hub_server.endpoint, repository)
    hub_server.repositories[repository]["chat_template.jinja"] = b"y"
    after = fetch(tmp_path, hub_server.endpoint, repository)
    assert after["revision"] == hub_server.commit(repository) != before["revision"]
    pinned = fetch(tmp_path, hub_server.endpoint, repository, before["revision"])
    assert pinned == before


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (401, "RepoNotFound", "There is no model"),
        (403, "GatedRepo", "is gated. Ask for access"),
        (401, "GatedRepo", "is gated. Ask for access"),
        (403, "", "HTTP status 403"),
        (503, "", "HTTP status 503"),
    ],
)
def test_no_access_is_said(
    hub_server: Any, repository: str, tmp_path: Path, status: int, code: str, said: str
) -> None:
    hub_server.refused[repository] = (status, code)
    error = fetch(tmp_path, hub_server.endpoint, repository)["error"]
    assert said in error
    assert "HF_TOKEN" in error


def test_what_is_not_there_is_said(hub_server: Any, repository: str, tmp_path: Path) -> None:
    endpoint = hub_server.endpoint
    missing = fetch(tmp_path, endpoint, "org/other")["error"]
    assert "There is no model org/other" in missing
    revision = fetch(tmp_path, endpoint, repository, "v9")["error"]
    assert "no revision 'v9'" in revision
    offline = fetch(tmp_path, endpoint, repository, HF_HUB_OFFLINE="1")["error"]
    assert "HF_HUB_OFFLINE" in offline
    unreachable = fetch(tmp_path, "http://127.0.0.1:9", repository)["error"]
    assert "could not be reached" in unreachable
    assert "http://127.0.0.1:9" in unreachable


def test_the_token_comes_from_the_environment(
    hub_server: Any, repository: str, tmp_path: Path
) -> None:
    hub_server.token = "hf_secret"
    assert "There is no model" in fetch(tmp_path, hub_server.endpoint, repository)["error"]
    found = fetch(tmp_path, hub_server.endpoint, repository, HF_TOKEN="hf_secret")
    assert found["revision"] == hub_server.commit(repository)


def test_modelscope_is_named_when_it_is_missing(tmp_path: Path) -> None:
    for switch in ("PROMPTMILL_USE_MODELSCOPE", "VLLM_USE_MODELSCOPE"):
        found = fetch(tmp_path, "http://127.0.0.1:9", "org/model", **{switch: "True"})
        assert "pip install modelscope" in found["error"]


BUNDLES = """
import json, sys
from promptmill.pipeline.model.load import load_bundle
from promptmill.schemas.options import JobOptions
found = {}
for model in sys.argv[1:]:
    bundle = load_bundle(JobOptions(input=("x",), output="o", model=model))
    found[bundle.name] = [bundle.revision, bundle.tokenizer_mode, bundle.chat_templates]
print(json.dumps(found))
"""


def test_bundles_from_the_hub(
    hub_server: Any, repository: str, models: Path, tmp_path: Path
) -> None:
    release = {p.name: p.read_bytes() for p in (models / "mistral_spm").iterdir()}
    hub_server.repositories["org/mistral"] = {**release, "consolidated.safetensors": b"w"}
    found = fetch(tmp_path, hub_server.endpoint, repository, "org/mistral", script=BUNDLES)
    templates = {"default": "x", "tool_use": "tools"}
    assert found == {
        repository: [hub_server.commit(repository), "hf", templates],
        "org/mistral": [hub_server.commit("org/mistral"), "mistral", {}],
    }
    assert not hub_server.downloads & set(WEIGHTS)

"""The files of `infra/` are checked as far as that goes without the engines that take them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import promql_parser
import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard
from jsonschema import Draft202012Validator

from command import CLI
from promptmill.schemas.json_types import Json, JsonObject
from promptmill.workers.metrics import COUNTERS, GAUGES
from promptmill.workers.shipping import read_runtime_env

ROOT = Path(__file__).resolve().parents[2]
INFRA = ROOT / "infra"
BIN = Path(sys.executable).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def read(name: str) -> JsonObject:
    loaded = yaml.safe_load((INFRA / name).read_text())
    assert isinstance(loaded, dict)
    return loaded


def strict(schema: Json) -> Json:
    """A custom resource's schema that refuses what it does not name; the cluster drops it."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: strict(value) for key, value in schema.items()}
    if "properties" in inner and not inner.get("x-kubernetes-preserve-unknown-fields"):
        inner.setdefault("additionalProperties", False)
    return inner


@pytest.mark.parametrize(
    ("name", "crd"),
    [
        ("rayjob.yaml", "ray.io_rayjobs.yaml"),
        ("raycluster-autoscaling.yaml", "ray.io_rayclusters.yaml"),
    ],
)
def test_kuberay_takes_it(name: str, crd: str, shared: Path) -> None:
    definition = yaml.safe_load((shared / "data" / "kuberay" / crd).read_text())
    manifest = read(name)
    (schema,) = [
        version["schema"]["openAPIV3Schema"]
        for version in definition["spec"]["versions"]
        if f"ray.io/{version['name']}" == manifest["apiVersion"]
    ]
    assert manifest["kind"] == definition["spec"]["names"]["kind"]
    top = strict(schema)
    assert isinstance(top, dict)
    top["properties"]["metadata"] = {"type": "object"}  # type: ignore[index,call-overload]
    found = [f"{e.json_path}: {e.message}" for e in Draft202012Validator(top).iter_errors(manifest)]
    assert found == []
    manifest["spec"]["nonsense"] = 1  # type: ignore[index,call-overload]
    assert list(Draft202012Validator(top).iter_errors(manifest))


def values(tree: object, key: str) -> Iterator[object]:
    if isinstance(tree, dict):
        for name, value in tree.items():
            if name == key:
                yield value
            yield from values(value, key)
    elif isinstance(tree, list):
        for item in tree:
            yield from values(item, key)


@pytest.mark.parametrize("name", ["rayjob.yaml", "raycluster-autoscaling.yaml"])
def test_versions_are_those_of_the_image(name: str) -> None:
    manifest = read(name)
    pinned = (ROOT / "constraints.txt").read_text()
    assert set(values(manifest, "image")) == {f"promptmill:{PROJECT['version']}"}
    for version in values(manifest, "rayVersion"):
        assert f"\nray=={version}\n" in pinned


def test_the_entrypoint_of_the_job_is_a_command_of_ours() -> None:
    (entrypoint,) = values(read("rayjob.yaml"), "entrypoint")
    program, arguments = str(entrypoint).split(" run ")
    assert program == "python -m promptmill.workers.cli"
    command = [*CLI, "run", *shlex.split(arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    said = json.loads(done.stderr)
    assert (done.returncode, said["level"], said["event"]) == (1, "error", "failed")
    assert "/data" in said["message"]  # understood; there is no such folder here


def test_the_runtime_environment_lists_what_promptmill_needs(tmp_path: Path) -> None:
    env = read_runtime_env(INFRA / "runtime_env.yaml", tmp_path / "promptmill.whl")
    assert env["pip"] == {
        "packages": [need for need in PROJECT["dependencies"] if not need.startswith("ray[")]
    }


@pytest.mark.parametrize(
    "command",
    [["hadolint", "infra/Dockerfile"], ["shellcheck", "infra/slurm/promptmill.sbatch", ".ci/run"]],
    ids=lambda command: command[0],
)
def test_linters_find_nothing(command: list[str]) -> None:
    done = subprocess.run(
        [BIN / command[0], *command[1:]], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_image_is_built_from_what_the_wheel_needs() -> None:
    ignored = (INFRA / "Dockerfile.dockerignore").read_text().splitlines()
    taken = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    layers = {"pipeline", "schemas", "static", "workers"}
    assert taken == layers | {"LICENSE", "README.md", "constraints.txt", "pyproject.toml"}


def test_grafana_takes_the_dashboard() -> None:
    dashboard = json.loads((INFRA / "grafana.json").read_text())
    again = json.loads(JSONEncoder().encode(Dashboard.from_json(dashboard)))
    assert lost(dashboard, again) == []


def lost(one: object, two: object, path: str = "") -> list[str]:
    """What Grafana's own types do not know."""
    if isinstance(one, dict):
        assert isinstance(two, dict), path
        return [
            said
            for key, value in one.items()
            for said in (
                lost(value, two[key], f"{path}.{key}") if key in two else [f"{path}.{key}"]
            )
        ]
    if isinstance(one, list):
        assert isinstance(two, list), path
        pairs = zip(one, two, strict=True)
        return [said for n, (a, b) in enumerate(pairs) for said in lost(a, b, f"{path}[{n}]")]
    return [] if one == two else [f"{path}: {one} -> {two}"]


def test_the_dashboard_shows_every_metric_and_no_other() -> None:
    dashboard = json.loads((INFRA / "grafana.json").read_text())
    shown: set[str] = set()
    for query in map(str, values(dashboard, "expr")):
        promql_parser.parse(query.replace("$__rate_interval", "5m"))
        shown |= set(re.findall(r"ray_(promptmill_\w+)", query))
    assert shown == COUNTERS.keys() | GAUGES.keys()
    text = (INFRA / "grafana.json").read_text()
    assert set(re.findall(r"ray_(promptmill_\w+)", text)) == shown


def test_every_metric_has_its_line_in_the_docs() -> None:
    page = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`(promptmill_\w+)`", page)) == COUNTERS.keys() | GAUGES.keys()

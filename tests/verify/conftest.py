"""Servers to verify runs by, and runs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from command import CLI
from rendering_server import CLOCK, DEMO, ROWS, Body, Stub, serving


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _models_resolved_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMPTMILL_CACHE", str(cache))


Serve = Callable[..., tuple[str, Stub]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers; gives the address of each and what it is like."""
    with ExitStack() as servers:

        def start(**options: Any) -> tuple[str, Stub]:
            stub = Stub(**options)
            return servers.enter_context(serving(stub)), stub

        yield start


Run = Callable[..., Path]


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Run:
    """Makes runs of rows, each set of arguments once; gives their folders."""
    made: dict[str, Path] = {}

    def make(*words: str, rows: list[Body] | None = None) -> Path:
        rows = ROWS if rows is None else rows
        name = json.dumps([words, rows])
        if name not in made:
            folder = tmp_path_factory.mktemp("run")
            source = folder / "in.jsonl"
            source.write_text("".join(json.dumps(row) + "\n" for row in rows) + "no json\n")
            # In a process of its own: a local run bounds the memory of the process that it has.
            command = [*CLI, "run", "--local"]
            command += ["-i", str(source), "-o", str(folder / "out")]
            command += ["--model", str(DEMO / "model"), "--max-model-len", "128"]
            command += ["--allowed-media-root", str(DEMO), "--clock", CLOCK.isoformat(), *words]
            environment = os.environ | {"PROMPTMILL_CACHE": str(cache)}
            subprocess.run(command, check=True, capture_output=True, env=environment)
            made[name] = folder / "out"
        return made[name]

    return make

"""What a look at the model and its template finds, said where a run starts."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from promptmill.schemas.errors import JobError
from promptmill.schemas.options import JobOptions
from promptmill.workers.job import resolve_job
from promptmill.workers.run import run
from promptmill.workers.start_probe import SAMPLE_MEMORY
from reporters import KeptLines

MakeOptions = Callable[..., JobOptions]
# No literal of the template holds the spelling: only rendering shows it.
FOREIGN = "{% for m in messages %}{{ '<|' ~ m.role ~ '|>' ~ m.content }}{% endfor %}"


@pytest.fixture
def options(tmp_path: Path) -> MakeOptions:
    """A job of one completion, to the folder `out`."""
    source = tmp_path / "in.jsonl"
    source.write_text(json.dumps({"prompt": "hello"}) + "\n")

    def make(model: Path, **more: object) -> JobOptions:
        given = {"input": (str(source),), "output": str(tmp_path / "out"), "local": True}
        return JobOptions.model_validate({**given, "model": str(model), **more})

    return make


@pytest.mark.parametrize(
    ("model", "task"),
    [
        ("chatml", "generate"),
        ("notemplate", "generate"),
        ("bomb", "generate"),  # its template does not end
        ("rstrip", "train"),  # its turns cannot be told, which no sample needs
    ],
)
def test_nothing_is_found_in_a_fitting_model(
    options: MakeOptions, tiny_models: Path, model: str, task: str
) -> None:
    assert resolve_job(options(tiny_models / model, task=task)).probed == ()


def test_a_foreign_template_is_said_once_and_recorded(
    options: MakeOptions, tiny_models: Path, tmp_path: Path
) -> None:
    log = KeptLines()
    assert run(options(tiny_models / "chatml", chat_template=FOREIGN), log).exit_code == 0
    (line,) = [line for line in log.lines if "The chat template writes" in line]
    assert line.startswith("warning: ")
    assert "<|user|>" in line
    record = json.loads((tmp_path / "out" / "_promptmill" / "run.json").read_text())
    assert sum("<|user|>" in warning for warning in record["warnings"]) == 1


def test_a_template_that_eats_memory_is_stopped_here_too(
    options: MakeOptions, tiny_models: Path
) -> None:
    doubling = "{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}"
    bomb = f"{{% set ns = namespace(s='x' * 1000) %}}{doubling}{{{{ ns.s }}}}"
    limits, peak = resource.getrlimit(resource.RLIMIT_DATA), peak_memory()
    assert resolve_job(options(tiny_models / "chatml", chat_template=bomb)).probed == ()
    assert peak_memory() < peak + 2 * SAMPLE_MEMORY
    assert resource.getrlimit(resource.RLIMIT_DATA) == limits


def peak_memory() -> int:
    """Bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def test_a_model_of_garbage_ids_ends_the_run_before_it_begins(
    options: MakeOptions, models: Path, tmp_path: Path
) -> None:
    with pytest.raises(JobError, match="garbage"):
        run(options(models / "deepseek_v3_llamacls"), KeptLines())
    assert not (tmp_path / "out").exists()


def test_a_template_that_jinja_cannot_read_ends_the_run_before_it_begins(
    options: MakeOptions, tiny_models: Path, tmp_path: Path
) -> None:
    with pytest.raises(JobError, match="--chat-template cannot be used"):
        run(options(tiny_models / "chatml", chat_template="{% if %}"), KeptLines())
    assert not (tmp_path / "out").exists()

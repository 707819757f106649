"""A job that goes to other machines means the same there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import typer
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from promptmill.pipeline.model.load import load_bundle
from promptmill.schemas.errors import JobError
from promptmill.schemas.options import EngineName, JobOptions, OnOverlong, Side, Task
from promptmill.workers.cli.options import as_arguments, takes_job
from promptmill.workers.environment import ONE_THREAD
from promptmill.workers.progress import LineReporter
from promptmill.workers.run import run
from promptmill.workers.shipping import check_output, read_runtime_env, ship

WORDS = st.text(min_size=1, max_size=8)


def job(**options: object) -> JobOptions:
    given: dict[str, object] = {"input": ("a.jsonl",), "output": "out", "model": "Qwen/Qwen3-8B"}
    return JobOptions.model_validate(given | options)


JOBS = st.builds(
    job,
    input=st.lists(WORDS, min_size=1, max_size=3).map(tuple),
    output=WORDS,
    model=WORDS,
    chat_template=st.none() | WORDS,
    chat_template_kwargs=st.dictionaries(WORDS, st.none() | st.booleans() | WORDS, max_size=2),
    limit_mm_per_prompt=st.dictionaries(st.sampled_from(["image", "audio"]), st.integers(0, 9)),
    served_model_name=st.lists(WORDS, max_size=2).map(tuple),
    truncate_prompt_tokens=st.none() | st.integers(-1, 99),
    truncation_side=st.none() | st.sampled_from(Side),
    clock=st.none() | st.datetimes(),
    render_timeout=st.floats(0, 1e6),
    task=st.sampled_from(Task),
    on_overlong=st.sampled_from(OnOverlong),
    engine=st.sampled_from([EngineName.AUTO, EngineName.TOKENIZERS]),
    with_text=st.booleans(),
    with_offsets=st.booleans(),
    with_mask=st.none() | st.booleans(),
    check_media=st.booleans(),
)


@settings(deadline=None)
@given(JOBS)
def test_a_job_survives_its_command_line(options: JobOptions) -> None:
    jobs: list[JobOptions] = []
    command = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    command.command()(takes_job(jobs.append))
    done = CliRunner().invoke(command, as_arguments(options))
    assert done.exit_code == 0, done.output
    assert jobs == [options]


def test_paths_and_files_mean_the_same_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").touch()
    (tmp_path / "t.jinja").write_text("{{ messages }}")
    (tmp_path / "model").mkdir()
    options = job(input=("a.jsonl", "s3://bucket/*.jsonl"), model="model", chat_template="t.jinja")
    shipped = ship(options)
    assert shipped.options == job(
        input=(str(tmp_path / "a.jsonl"), "s3://bucket/*.jsonl"),
        output=str(tmp_path / "out"),
        model=str(tmp_path / "model"),
        chat_template="{{ messages }}",
        address="auto",
    )
    (warning,) = shipped.warnings
    assert str(tmp_path / "a.jsonl") in warning
    assert f"-o {tmp_path / 'out'}" in warning, "before the folder is there, too"
    assert "s3:" not in warning
    assert ship(shipped.options).options == shipped.options


def test_what_is_not_here_is_of_the_cluster() -> None:
    shipped = ship(job(input=("/cluster/a.jsonl",), output="/cluster/out"))
    assert shipped.warnings == ()
    assert shipped.options.model == "Qwen/Qwen3-8B"


def test_what_cannot_change_bytes_is_the_same_job() -> None:
    one, two = ship(job(workers=2, max_rejects=1)), ship(job(workers=64))
    other = ship(job(max_model_len=9))
    assert (one.output_key, one.job_key) == (two.output_key, two.job_key)
    assert other.output_key == one.output_key
    assert other.job_key != one.job_key


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"local": True}, "promptmill run"),
        ({"input": ("s3://key:secret@bucket/a.jsonl",)}, "holds credentials"),
        ({"output": "https://host/out?sig=secret"}, "holds credentials"),
    ],
)
def test_what_cannot_be_shipped_is_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(JobError, match=said) as refused:
        ship(job(**options))
    assert "secret" not in str(refused.value)


def test_the_runtime_environment_is_added_to(tmp_path: Path) -> None:
    path, wheel = tmp_path / "env.yaml", tmp_path / "p.whl"
    mine = {"pip": ["x"], "py_modules": ["y"], "env_vars": {"A": "1", "OMP_NUM_THREADS": "2"}}
    path.write_text(yaml.safe_dump(mine))
    env = read_runtime_env(path, wheel)
    assert env["pip"] == ["x"]
    assert env["py_modules"] == ["y", str(wheel)]
    variables = env["env_vars"]
    assert isinstance(variables, dict)
    assert variables.keys() > ONE_THREAD.keys()
    assert (variables["A"], variables["OMP_NUM_THREADS"]) == ("1", "2")


@pytest.mark.parametrize("text", ["- a", "a: [", "env_vars: [1]", "py_modules: a"])
def test_a_file_that_is_no_runtime_environment_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "env.yaml"
    path.write_text(text)
    with pytest.raises(JobError, match="--runtime-env"):
        read_runtime_env(path, tmp_path / "p.whl")


def test_a_folder_of_another_job_is_known_here(tmp_path: Path, tiny_models: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"id": "a", "text": "cat"}\n')
    model = tiny_models / "chatml"
    given: dict[str, object] = {
        "input": (str(tmp_path / "in.jsonl"),),
        "output": str(tmp_path / "out"),
        "model": str(model),
        "text_column": "text",
        "chat_template": "{{ messages }}",
    }
    check_output(ship(job(**given)))
    with (tmp_path / "log").open("w") as log:
        run(job(**given, local=True), LineReporter(log))
    length = load_bundle(job(**given)).derived_max_model_len
    same = [{}, {"workers": 9, "max_rejects": 3}, {"max_model_len": length}]
    for options in (*same, {"chat_template": "/of/the/cluster.jinja"}):
        check_output(ship(job(**given | options)))
    for options in ({"with_text": True}, {"max_model_len": 9}, {"chat_template": "{{ tools }}"}):
        (name,) = options
        with pytest.raises(JobError, match=rf"belongs to another job(.|\n)*options\.{name}: "):
            check_output(ship(job(**given | options)))
    other, inputs = str(tiny_models / "bos"), (str(tmp_path / "in2.jsonl"),)
    (tmp_path / "in2.jsonl").write_text('{"id": "a", "text": "dog"}\n')
    with pytest.raises(JobError, match=rf"model: .*chatml -> {other}\n(.|\n)*  tokenizer: "):
        check_output(ship(job(**given | {"model": other})))
    with pytest.raises(JobError, match=r"input\.in2\.jsonl: only here"):
        check_output(ship(job(**given | {"input": inputs})))
    # A copy of the model is the same model, and what is not seen here is left to the cluster.
    copy = shutil.copytree(tiny_models / "chatml", tmp_path / "copy")
    for seen in ({"model": str(copy)}, {"model": "/there/only"}, {"input": ("/there/in.jsonl",)}):
        check_output(ship(job(**given | seen)))

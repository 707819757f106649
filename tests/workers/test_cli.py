"""The command line and the job's options are one list; sources of options and their order."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from promptmill.schemas.options import JobOptions, Side, Task
from promptmill.workers.arguments import option_name
from promptmill.workers.cli.app import app
from promptmill.workers.cli.job import read_job
from promptmill.workers.cli.options import takes_job

NEEDED = ["-i", "a.jsonl", "-o", "out", "--model", "m"]
GIVEN = {"input": ["a.jsonl"], "output": "out", "model": "m"}


def parse(*arguments: str) -> JobOptions:
    """The job that a command would get."""
    jobs: list[JobOptions] = []
    command = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    command.command()(takes_job(jobs.append))
    done = CliRunner().invoke(command, [*NEEDED, *arguments])
    assert done.exit_code == 0, done.output
    return jobs[0]


def refuse(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["plan", *arguments])
    assert done.exit_code == 2
    return done.output


def test_options_are_the_fields_of_the_job() -> None:
    command = takes_job(lambda _: None)
    parameters = set(inspect.signature(command).parameters)
    assert parameters - {"config", "settings", "more"} == set(JobOptions.model_fields)
    shown = CliRunner().invoke(app, ["run", "--help"]).output
    for name, field in JobOptions.model_fields.items():
        assert option_name(name) in shown
        assert field.description, f"{name} has no help"


def test_values_of_every_kind() -> None:
    job = parse(
        *("--max-model-len", "64", "--task", "pooling", "--truncation-side", "left"),
        *("--chat-template-kwargs", '{"enable_thinking": false}', "--no-offsets", "--with-text"),
        *("--clock", "2024-07-26T00:00:00", "--render-timeout", "2.5", "-i", "b.jsonl"),
        *("--local", "--workers", "1", "--truncate-prompt-tokens", "-1"),
    )
    assert job.input == ("a.jsonl", "b.jsonl")
    assert (job.max_model_len, job.task, job.truncation_side) == (64, Task.POOLING, Side.LEFT)
    assert job.chat_template_kwargs == {"enable_thinking": False}
    assert (job.with_offsets, job.with_text, job.local, job.workers) == (False, True, True, (1, 1))
    assert job.clock is not None
    assert job.clock.year == 2024
    assert (job.render_timeout, job.truncate_prompt_tokens) == (2.5, -1)


def test_what_a_shell_makes_of_a_star_is_input() -> None:
    assert parse("--with-text", "b.jsonl", "c.jsonl").input == ("a.jsonl", "b.jsonl", "c.jsonl")


def test_not_given_is_the_default() -> None:
    assert parse() == JobOptions(input=("a.jsonl",), output="out", model="m")


def test_options_win_over_set_over_config_over_defaults(tmp_path: Path) -> None:
    config = tmp_path / "job.yaml"
    config.write_text(
        "max-model-len: 1\nmax_tokens: 1\nworkers: 1\nchat_template_kwargs: {a: 1, b: 1}\n"
    )
    job = read_job(
        {**GIVEN, "workers": 3},
        config=config,
        settings=["max_tokens=2", "workers=2", "chat_template_kwargs.b=false"],
    )
    assert (job.max_model_len, job.max_tokens, job.workers) == (1, 2, (3, 3))
    assert job.chat_template_kwargs == {"a": 1, "b": False}
    assert job.format == "parquet"


def test_a_job_may_come_from_its_file_alone(tmp_path: Path) -> None:
    config = tmp_path / "job.yaml"
    config.write_text("input: [a.jsonl]\noutput: out\nmodel: m\n")
    assert read_job({}, config=config).model == "m"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--max-modellen", "5"], "--max-model-len"),
        (["--set", "max_modellen=5"], "Did you mean max_model_len?"),
        (["--set", "max_model_len"], "expected name=value"),
        (["--set", "revision=x", "--set", "revision.name=x"], "no keys below"),
        (["--max-model-len", "0"], "--max-model-len: Input should be greater than 0"),
        (["--max-model-len", "many"], "--max-model-len"),
        (["--task", "eat"], "pooling"),
        (["--chat-template-kwargs", "{"], "--chat-template-kwargs is no JSON"),
        (["--chat-template-kwargs", "[]"], "--chat-template-kwargs: Input should be a valid"),
        (["--config", "/no/such.yaml"], "No such file"),
        (["--rows-per-shard", "1", "--shard-bytes", "1"], "exclude each other"),
    ],
)
def test_wrong_arguments_are_exit_2_with_a_reason(arguments: list[str], said: str) -> None:
    assert said in " ".join(refuse(*NEEDED, *arguments).split())


def test_unknown_keys_of_a_file_are_refused(tmp_path: Path) -> None:
    config = tmp_path / "job.yaml"
    config.write_text("modle: m\n")
    assert "Did you mean model?" in refuse("--config", str(config))
    config.write_text("- a\n")
    assert "expected options by name" in refuse("--config", str(config))
    config.write_text("a: [\n")
    assert "no YAML" in refuse("--config", str(config))


def test_missing_options_are_named() -> None:
    said = " ".join(refuse("-i", "a").split())
    assert "--model: missing; give --model, a folder or a hub id" in said
    assert "--output: missing; give -o" in said


def test_help_shows_no_empty_default_and_says_what_an_address_is() -> None:
    shown = {name: CliRunner().invoke(app, [name, "--help"]).output for name in ("run", "submit")}
    assert "()" not in shown["run"]
    assert "Default: generate." in shown["run"]
    assert "dashboard, as http" in " ".join(shown["submit"].split())


def test_a_missing_runtime_environment_is_told_before_anything() -> None:
    where = ["--address", "http://127.0.0.1:9", "--runtime-env", "/no/such.yaml"]
    done = CliRunner().invoke(app, ["submit", *NEEDED, *where])
    assert done.exit_code == 2
    assert "'/no/such.yaml' does not exist" in " ".join(done.output.split())


def test_help_starts_without_the_heavy_libraries() -> None:
    code = (
        "import sys\n"
        "import promptmill.workers.cli.app\n"
        "print({'ray', 'transformers', 'tokenizers', 'pyarrow', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "set()"


def test_a_job_file_brings_no_code(tmp_path: Path) -> None:
    config = tmp_path / "job.yaml"
    config.write_text("media_family: family.py\n")
    assert "command line only" in refuse(*NEEDED, "--config", str(config))
    assert "command line only" in refuse(*NEEDED, "--set", "media_family=family.py")
    assert parse("--media-family", "family.py").media_family == "family.py"

"""How the command line speaks: help, versions, failures, colours, how much it says."""

from __future__ import annotations

import logging
import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

from command import CLI
from promptmill.schemas import profile
from promptmill.schemas.errors import ErrorCode, JobError, RowError
from promptmill.workers.cli.app import app, main
from promptmill.workers.cli.failures import show_failure
from promptmill.workers.cli.voice import VOICE

GROUP = typer.main.get_command(app)
assert isinstance(GROUP, TyperGroup)
COMMANDS = GROUP.commands
CHAT = '{"messages": [{"role": "user", "content": "cat"}]}\n'


_STOPS = "It said: no. See ../a or .. or a...\nMend it."


@pytest.fixture(autouse=True)
def _calm() -> Iterator[None]:
    """What a command line sets for its process is set back."""
    logger = logging.getLogger("promptmill")
    before = logger.handlers, logger.propagate, logger.level
    yield
    logger.handlers, logger.propagate = before[:2]
    logger.setLevel(before[2])
    VOICE.quiet = VOICE.verbose = False


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    return subprocess.run(
        [*CLI, *arguments], capture_output=True, text=True, env=known | environment
    )


def examples(name: str) -> list[str]:
    help_text = CliRunner().invoke(app, [name, "--help"]).output
    _, _, shown = help_text.partition("Examples:\n")
    return [line.strip() for line in shown.splitlines() if line.strip()]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_that_parse(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = examples(name)
    assert shown
    for example in shown:
        program, called, *arguments = shlex.split(example.partition(" >")[0])
        assert (program, called) == ("promptmill", name)
        COMMANDS[name].make_context(name, arguments)


def test_help_has_a_short_name() -> None:
    for words in ([], ["run"], ["status"]):
        short, long = (CliRunner().invoke(app, [*words, help_]) for help_ in ("-h", "--help"))
        assert (short.exit_code, short.output) == (0, long.output)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_is_not_cut(name: str) -> None:
    shown = CliRunner().invoke(app, ["--help"]).output
    line = next(line for line in shown.splitlines() if line.split()[:1] == [name])
    assert line.endswith(".")
    assert not line.endswith("...")


def test_the_version_names_the_rules() -> None:
    shown = CliRunner().invoke(app, ["--version"])
    assert shown.exit_code == 0
    assert shown.output.startswith("promptmill ")
    assert profile.NAME in shown.output
    assert profile.TRANSFORMERS_RANGE in shown.output


def test_without_a_command_there_is_help() -> None:
    done = command()
    assert (done.returncode, done.stdout) == (2, "")
    assert "Commands:" in done.stderr


def test_a_shell_completes_commands_and_options() -> None:
    script = Path(sys.executable).parent / "promptmill"
    for words, wanted in (("promptmill ex", "export"), ("promptmill run --max-mo", "--max-model")):
        ask = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        ask["_PROMPTMILL_COMPLETE"] = "complete_bash"
        done = subprocess.run(
            [str(script)], capture_output=True, text=True, env=os.environ | ask, check=True
        )
        assert wanted in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "lines"),
    [
        (
            ["status", "{tmp}"],
            1,
            [
                "promptmill: {tmp} holds no promptmill run.",
                "Name the folder that a run wrote to; a job that was just submitted has not begun "
                "yet, and --watch waits for it.",
            ],
        ),
        (
            ["run", "--zzz", "5"],
            2,
            [
                "promptmill run: No such option: --zzz",
                "Try 'promptmill run --help'.",
            ],
        ),
        (
            ["statu"],
            2,
            [
                "promptmill: No such command 'statu'. Did you mean 'status'?",
                "Try 'promptmill --help'.",
            ],
        ),
        (
            ["status", "x", "-q", "-v"],
            2,
            [
                "promptmill status: Invalid value: --quiet and --verbose exclude each other; give "
                "one",
                "Try 'promptmill status --help'.",
            ],
        ),
        (
            ["plan", "--task", "trian"],
            2,
            [
                "promptmill plan: Invalid value for '--task': 'trian' is not one of 'generate', "
                "'pooling', 'train'.",
                "Try 'promptmill plan --help'.",
            ],
        ),
        (
            ["plan", "-i", "a", "-o", "b", "--model", "m", "--append-eos"],
            2,
            [
                "promptmill plan: Invalid value: append_eos is for documents; name their "
                "text_column",
                "Try 'promptmill plan --help'.",
            ],
        ),
    ],
    ids=["job", "option", "command", "both", "choice", "rule"],
)
def test_failures_say_what_is_wrong_and_what_to_do(
    arguments: list[str],
    code: int,
    lines: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = str(tmp_path)
    given = [argument.replace("{tmp}", place) for argument in arguments]
    monkeypatch.setattr(sys, "argv", ["promptmill", *given])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    shown = capsys.readouterr().err.splitlines()
    assert shown == [line.replace("{tmp}", place) for line in lines]


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (JobError("It is bad. It is very bad. Mend it."), "It is bad. It is very bad.\nMend it."),
        (JobError("a.b. c is bad"), "a.b. c is bad"),
        (JobError("It said: no.. See ../a or .. or a... Mend it.."), _STOPS),
        (RowError(ErrorCode.INVALID_JSON, "It said: no.. Mend it."), "It said: no.\nMend it."),
        (JobError("What differs:\n  a\nName another."), "What differs:\n  a\nName another."),
        (
            OSError(28, "No space left on device", "/out/x"),
            "No space left on device: /out/x\nCheck the path, its permissions and the disk, then "
            "give the command again.",
        ),
    ],
)
def test_the_last_sentence_is_the_way_out(
    error: Exception, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show_failure(error) == 1
    assert capsys.readouterr().err == f"promptmill: {shown}\n"


def fail_with_content(output: Path) -> Iterator[str]:
    secret = "the row's text"
    raise ValueError(f"cannot parse {secret}")


@pytest.mark.parametrize("verbose", [False, True])
def test_a_fault_of_ours_quotes_no_row_unless_asked(
    verbose: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("promptmill.workers.report.write_report", fail_with_content)
    monkeypatch.setattr(sys, "argv", ["promptmill", "report", "out", *["-v"] * verbose])
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr().err
    assert ended.value.code == 1
    assert ("the row's text" in shown) is verbose
    assert f"internal error: ValueError at {__file__}:" in shown
    assert "Please report it" in shown
    assert "secret =" not in shown, "no local variables"


@pytest.mark.parametrize("verbose", [False, True])
def test_logged_exceptions_quote_no_row_unless_asked(
    verbose: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def log_and_go_on(output: Path) -> list[str]:
        try:
            list(fail_with_content(output))
        except ValueError:
            logging.getLogger("promptmill.pipeline").exception("row 3 failed")
        return []

    monkeypatch.setattr("promptmill.workers.report.write_report", log_and_go_on)
    monkeypatch.setattr(sys, "argv", ["promptmill", "report", "out", *["-v"] * verbose])
    with pytest.raises(SystemExit):
        main()
    shown = capsys.readouterr().err
    assert "row 3 failed" in shown
    assert "ValueError" in shown
    assert ("cannot parse the row's text" in shown) is verbose


def test_an_interrupted_command_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(output: Path) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr("promptmill.workers.report.write_report", interrupted)
    monkeypatch.setattr(sys, "argv", ["promptmill", "report", "out"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130


@pytest.fixture
def one_chat(tmp_path: Path, tiny_models: Path) -> list[str]:
    """Arguments of commands that take a job."""
    (tmp_path / "in.jsonl").write_text(CHAT)
    return ["-i", str(tmp_path / "in.jsonl"), "--model", str(tiny_models / "chatml")]


def test_a_quiet_run_says_nothing_but_warnings(one_chat: list[str], tmp_path: Path) -> None:
    where = ["-o", str(tmp_path / "out"), "--local", "--max-model-len", "64"]
    quiet = command("run", *one_chat, *where, "--quiet")
    assert (quiet.returncode, quiet.stdout) == (0, "")
    assert all(line.startswith("warning:") for line in quiet.stderr.splitlines())
    assert "1 prompt in, 1 row out" in command("run", *one_chat, *where).stdout
    out = str(tmp_path / "out")
    exported = command("export", out, "--to", "hf", "-o", str(tmp_path / "set"), "-q")
    assert (exported.returncode, exported.stdout) == (0, "")
    assert command("status", out, "-q").stdout.startswith("job "), "what was asked for is said"


def test_a_quiet_run_still_says_that_nothing_came_of_it(
    one_chat: list[str], tmp_path: Path
) -> None:
    where = ["-o", str(tmp_path / "out"), "--local", "--max-model-len", "1", "--max-rejects", "0"]
    done = command("run", *one_chat, *where, "-q")
    assert (done.returncode, done.stdout) == (3, "")
    assert "warning: everything was rejected (1 prompt)" in done.stderr
    assert "warning: 1 rejects are more than --max-rejects 0: exit code 3" in done.stderr


def on_terminal(arguments: list[str], **environment: str) -> str:
    """What a command prints where its output is a terminal."""
    ours, theirs = pty.openpty()
    known = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "TERM"}}
    process = subprocess.Popen(
        [*CLI, *arguments], stdout=theirs, env=known | {"TERM": "xterm"} | environment
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            data = os.read(ours, 65_536)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        shown += data
    os.close(ours)
    assert process.wait() == 0
    return shown.decode()


def test_colours_are_for_terminals_that_want_them(one_chat: list[str]) -> None:
    look = ["inspect", *one_chat, "--row", "0"]
    assert "\x1b[" in on_terminal(look)
    assert "\x1b[" not in on_terminal(look, NO_COLOR="1")
    assert "\x1b[" not in command(*look).stdout

"""The `promptmill` command. It ends with 0 done, 1 failed, 2 wrong arguments, 3 too many rejects.

Commands import what they need when they run: `promptmill --help` must not wait for Ray or
transformers.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from promptmill.schemas import profile
from promptmill.workers.cli.commands import add_command
from promptmill.workers.cli.decode import decode
from promptmill.workers.cli.export import export
from promptmill.workers.cli.failures import show_failure
from promptmill.workers.cli.inspect import inspect
from promptmill.workers.cli.logs import show_few
from promptmill.workers.cli.plan import plan
from promptmill.workers.cli.report import report
from promptmill.workers.cli.run import run
from promptmill.workers.cli.status import status
from promptmill.workers.cli.submit import submit
from promptmill.workers.cli.verify import verify

app = typer.Typer(
    help="Render and tokenize prompts offline, exactly as the serving front end would.",
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        rules = f"rules {profile.NAME}, transformers {profile.TRANSFORMERS_RANGE}"
        typer.echo(f"promptmill {version('promptmill')} ({rules})")
        raise typer.Exit


@app.callback()
def _promptmill(
    ctx: typer.Context,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Show the version and the rules that prompts are made by.",
        ),
    ] = False,
) -> None:
    """Render and tokenize prompts offline, exactly as the serving front end would."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help(), err=True)
        raise typer.Exit(2)


add_command(
    app,
    run,
    "Render and tokenize the input.",
    "promptmill run -i chats.jsonl -o out --model Qwen/Qwen3-8B --max-model-len 8192",
    "promptmill run -i docs.parquet -o out --model ./model --text-column text --append-eos",
    "promptmill run --config job.yaml --set workers=8",
)
add_command(
    app,
    submit,
    "The same on a Ray cluster.",
    "promptmill submit --address http://head:8265 -i /data/chats -o /data/out --model /models/m",
)
add_command(
    app,
    plan,
    "What a run would do.",
    "promptmill plan -i chats.jsonl -o out --model Qwen/Qwen3-8B > job.yaml",
    "promptmill plan -i pictures.jsonl -o out --model ./model --media-table",
)
add_command(
    app,
    status,
    "How far a run is.",
    "promptmill status out",
)
add_command(
    app,
    report,
    "The page about a run, again.",
    "promptmill report out",
)
add_command(
    app,
    inspect,
    "One row: its text, its ids, what was cut.",
    "promptmill inspect out --id row-17",
    "promptmill inspect out --id row-17 --html row.html",
    "promptmill inspect -i chats.jsonl --model Qwen/Qwen3-8B --row 3 --json",
)
add_command(
    app,
    verify,
    "A run's ids beside a live server's.",
    "promptmill verify out --server http://localhost:8000 --sample 200",
    "promptmill verify out --server https://llm.example --sample all --json",
)
add_command(
    app,
    export,
    "A run for Megatron, datasets or vLLM.",
    "promptmill export out --to megatron -o data/train",
    "promptmill export out --to jsonl-vllm -o batch.jsonl",
)
add_command(
    app,
    decode,
    "An engine's output ids back to answers.",
    "promptmill decode -i answers.parquet -o answers.jsonl --model Qwen/Qwen3-8B",
)


def main() -> None:
    """Run the command line and end the process."""
    show_few()
    try:
        code = app(prog_name="promptmill", standalone_mode=False)
    except typer.Abort:
        code = 130
    except Exception as error:
        code = show_failure(error)
    sys.exit(code if isinstance(code, int) else 0)

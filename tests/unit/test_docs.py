"""The docs name what the code has."""

import re
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from promptmill.schemas.columns import COLUMNS
from promptmill.workers.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FOREIGN = {
    "--block",  # of ray start
    "--head",
    *("--append-eod", "--data-path", "--json-keys", "--output-prefix"),
    *("--no-wait", "--runtime-env", "--tokenizer-model", "--tokenizer-type"),
    *("--dashboard-agent-listen-port", "--dashboard-host", "--dashboard-port"),
    *("--generate", "--port"),
    *("--ray-client-server-port", "--temp-dir"),
    "--enable-scale-out",
    "--nodes",
    *("--ray", "--shards"),
    *("--reasoning-parser", "--tool-call-parser"),
}
"""Options of other tools that the pages name: Megatron's, Ray's, Slurm's, vLLM's, our benches'."""

GENERATED = {"security.md"}
"""The page that the site makes (infra/docs/hooks.py)."""


def options_of_the_command_line() -> set[str]:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    commands = [group, *group.commands.values()]
    parameters = [parameter for command in commands for parameter in command.params]
    names = (name for one in parameters for name in (*one.opts, *one.secondary_opts))
    return {*names, "--help"}


def test_every_column_has_its_line() -> None:
    table = (ROOT / "docs" / "output.md").read_text(encoding="utf-8")
    for column in COLUMNS:
        assert f"`{column.name}`" in table
        assert column.hf_name is None or f"`{column.hf_name}`" in table


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_that_are_named_exist(page: Path) -> None:
    known = options_of_the_command_line() | FOREIGN
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text(encoding="utf-8")))
    assert named <= known, named - known


@pytest.mark.parametrize("page", ["SECURITY.md", "docs/faults.md"])
def test_tests_that_are_named_exist(page: str) -> None:
    named = set(re.findall(r"`(tests/[^`]+)`", (ROOT / page).read_text(encoding="utf-8")))
    assert len(named) > 10
    assert {path for path in named if not (ROOT / path).exists()} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([\w/.-]+\.md)\)", page.read_text(encoding="utf-8")):
        assert target in GENERATED or (page.parent / target).is_file(), target

"""The docs name what the code has."""

import re
from pathlib import Path

import pytest

from promptmill.schemas.columns import COLUMNS
from promptmill.schemas.errors import ErrorCode
from promptmill.schemas.options import JobOptions

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OTHER_OPTIONS = {"--config", "--set", "--help", "--no-mask", "--no-offsets"} | {
    "--id",
    "--row",
    "--json",
    "--media-table",
    "--ids-column",
    "--no-thinking",
    "--no-tool-calls",
    "--no-wait",
    "--runtime-env",
}
"""Of the command line, beside the fields of a job."""


def test_every_error_code_has_its_line() -> None:
    table = (ROOT / "docs" / "output.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    assert {str(code) for code in ErrorCode} <= documented


def test_every_column_has_its_line() -> None:
    table = (ROOT / "docs" / "output.md").read_text(encoding="utf-8")
    for column in COLUMNS:
        assert f"`{column.name}`" in table
        assert column.hf_name is None or f"`{column.hf_name}`" in table


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_that_are_named_exist(page: Path) -> None:
    known = {"--" + name.replace("_", "-") for name in JobOptions.model_fields} | OTHER_OPTIONS
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text(encoding="utf-8")))
    assert named <= known, named - known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([\w/.-]+\.md)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).is_file(), target

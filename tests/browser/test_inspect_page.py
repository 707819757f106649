"""The page of `inspect --html` in a browser: pointing and keys link text and ids; nothing runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from promptmill.workers.cli.app import app

Open = Callable[..., Any]

DEMO = Path(__file__).resolve().parents[2] / "static" / "demo"
HOSTILE = (
    "</pre></style></script><script>document.title = 'taken'</script>"
    "<img src=x onerror=\"document.title = 'taken'\">"
    "<a href='javascript:1'>\" ' &amp; \x1b[31m\u202e"
)
PICTURE = {"type": "image_url", "image_url": {"url": "images/square.png"}}
ROWS = [
    {
        "id": "hostile " + HOSTILE,
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": HOSTILE + " \u0958 👩"}, PICTURE],
            },
            {"role": "assistant", "content": "A square, as it seems."},
        ],
        "user": HOSTILE,
    },
    {"id": "cut", "prompt": "one two three four five six", "truncate_prompt_tokens": 4},
    {"id": "several", "prompt": ["one two", "three"]},
    {"id": "ids", "prompt": [10, 11, 12]},
    {"id": "long", "prompt": "one two three " * 500},
    {"id": "no request"},
]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("pages")
    source = folder / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    words = ["inspect", "-i", str(source), "--model", str(DEMO / "model"), "--with-mask"]
    words += ["--allowed-media-root", str(DEMO), "--max-model-len", "512"]
    made = []
    for row in range(len(ROWS)):
        made.append(folder / f"{row}.html")
        done = CliRunner().invoke(app, [*words, "--row", str(row), "--html", str(made[-1])])
        assert done.exit_code == 0, done.output
    return made


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_every_page_can_be_read(
    pages: list[Path], open_page: Open, scheme: str, width: int
) -> None:
    for path in pages:
        opened = open_page(path, scheme=scheme, width=width)
        assert opened.faint_texts() == []
        assert opened.complaints == []
        assert opened.requests == []
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


def test_what_a_row_holds_is_only_shown(pages: list[Path], open_page: Open) -> None:
    opened = open_page(pages[0])
    page = opened.page
    assert page.title().startswith("hostile </pre>")
    assert page.locator("script").count() == 1
    assert page.locator("img, a").count() == 0
    shown = page.locator(".prompt").inner_text()
    assert "<script>document.title = 'taken'</script>" in shown
    assert "\x1b" not in page.content()
    assert "\u202e" not in page.content()
    # Even a script that came through is not run: the policy names the page's own by its hash.
    page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
        " document.body.append(s) }"
    )
    assert page.evaluate("window.ran") is None
    assert any("Content Security Policy" in line for line in opened.complaints)


def test_pointing_at_an_id_shows_its_text_and_the_other_way_round(
    pages: list[Path], open_page: Open
) -> None:
    page = open_page(pages[0]).page
    lit_text = page.locator(".prompt > .on")
    lit_row = page.locator("tr.on")
    picture = page.locator(".prompt > .media")
    picture.hover()
    assert lit_row.count() == 1  # all ids of a picture are one row
    first, last = map(int, lit_row.get_attribute("data-t").split("-"))
    assert last > first
    assert lit_row.is_visible()
    assert page.locator("#told").inner_text().startswith(f"{first}\u2013{last}")
    page.locator("tbody tr").nth(1).hover()
    assert lit_text.inner_text().strip() == page.locator("tbody tr").nth(1).locator(
        "td"
    ).last.inner_text().strip("'")
    page.locator("h1").hover()
    assert lit_row.count() == lit_text.count() == 0
    # A character of several ids.
    page.locator(".prompt > span", has_text="👩").first.hover()
    assert lit_row.count() > 1


def test_keys_do_the_same(pages: list[Path], open_page: Open) -> None:
    page = open_page(pages[0]).page
    page.keyboard.press("Tab")
    assert page.locator(":focus").get_attribute("data-t") == "0-0"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator("tr.on").get_attribute("data-t") == "2-2"
    page.keyboard.press("Tab")  # from the text to the ids
    assert page.locator("tr:focus").count() == 1
    page.keyboard.press("End")
    last = page.locator("tbody tr").last
    assert last.evaluate("row => row === document.activeElement")
    assert page.locator(".prompt > .on").count() == 1
    page.keyboard.press("Tab")
    assert page.locator("tr.on").count() == 0
    page.keyboard.press("Enter")
    assert page.locator("details[open] pre").is_visible()


def test_pages_of_all_kinds(pages: list[Path], open_page: Open) -> None:
    cut, several, ids, long, no_request = (open_page(path).page for path in pages[1:])
    assert cut.locator(".prompt > .cut").inner_text().startswith("one two")
    assert "keeps 4 of" in cut.locator("main li").first.inner_text()
    assert several.locator("h2").all_inner_texts() == ["Prompt 0: several-0", "Prompt 1: several-1"]
    assert ids.locator("tbody tr").count() == 3
    ids.locator(".prompt > span").nth(1).hover()
    assert ids.locator("tr.on").get_attribute("data-t") == "1-1"
    assert "prompt_too_long" in long.get_by_role("alert").inner_text()
    assert long.locator(".prompt").inner_text().startswith("one two three")
    assert "invalid_request" in no_request.get_by_role("alert").inner_text()

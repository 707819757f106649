"""The run report as a person sees it: drawn, legible, reachable by keyboard, on its own."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from command import CLI
from promptmill.workers.output_folder import OutputFolder
from promptmill.workers.report.gather import gather
from promptmill.workers.report.page import render_page

DEMO = Path(__file__).resolve().parents[2] / "static" / "demo"
HOSTILE = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run over the demo's rows, and two that are rejected."""
    folder = tmp_path_factory.mktemp("report")
    bad = [{"id": HOSTILE, "messages": HOSTILE}, {"id": "long", "prompt": f"{HOSTILE} " * 999}]
    (folder / "bad.jsonl").write_text("".join(json.dumps(row) + "\n" for row in bad))
    command = [*CLI, "run", "--local"]
    command += ["-i", str(DEMO / "requests.jsonl"), "-i", str(folder / "bad.jsonl")]
    command += ["-o", str(folder / "out")]
    command += ["--model", str(DEMO / "model"), "--allowed-media-root", str(DEMO)]
    command += ["--max-model-len", "2048", "--rows-per-shard", "200", "--report-content"]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "out" / "_promptmill" / "report.html"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_drawn_and_legible(open_page: Callable[..., Any], report: Path, scheme: str) -> None:
    opened = open_page(report, scheme=scheme)
    opened.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert opened.faint_texts() == []
    for chart, least in (("lengths", 5), ("throughput", 3), ("modalities", 2), ("stages", 3)):
        boxes = [bar.bounding_box() for bar in opened.page.locator(f"#{chart} rect.bar").all()]
        drawn = [box for box in boxes if box and box["width"] > 0 and box["height"] > 0]
        assert len(drawn) >= least, chart
        assert len({round(box["height"] + box["width"], 1) for box in drawn}) > 1, chart
    assert opened.page.locator("#lengths line.limit").count() == 1
    assert "max_model_len 2,048" in opened.page.locator("#lengths .limit-label").text_content()
    assert opened.page.title() != "taken"
    assert (opened.complaints, opened.requests) == ([], [])


def test_everything_is_reached_by_keyboard(open_page: Callable[..., Any], report: Path) -> None:
    opened = open_page(report)
    keys, page = opened.page.keyboard, opened.page
    background = "getComputedStyle(document.body).backgroundColor"
    reached = []
    for _ in range(40):
        keys.press("Tab")
        reached.append(opened.focused())
        if reached[-1] == "body":
            break
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", reached[-1]
        if reached[-1] == "theme":
            before = page.evaluate(background)
            keys.press("Enter")
            assert page.evaluate(background) != before
            assert opened.faint_texts() == []
        if reached[-1] == "summary":
            keys.press("Enter")
            assert page.evaluate("document.activeElement.parentElement.open")
        if reached[-1] == "copy":
            keys.press("Enter")
            expect(page.locator("#copy")).to_have_text(re.compile("Copied|Selected"))
    assert {"a", "theme", "summary", "command", "copy"} <= set(reached)
    assert reached.count("summary") == page.locator("summary").count()
    assert (opened.complaints, opened.requests) == ([], [])


def test_a_narrow_screen_does_not_scroll_sideways(
    open_page: Callable[..., Any], report: Path
) -> None:
    opened = open_page(report, width=380)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 380


def test_the_page_of_a_run_still_going_reloads_itself_and_keeps_its_colours(
    open_page: Callable[..., Any], report: Path, tmp_path: Path
) -> None:
    found = gather(OutputFolder(report.parents[1]))
    page = tmp_path / "status.html"
    page.write_text(render_page(found, refresh=True))
    opened = open_page(page)
    opened.page.click("#theme")
    page.write_text(render_page(found).replace("<title>", "<title>renewed "))
    expect(opened.page).to_have_title(re.compile("^renewed"), timeout=60_000)
    assert opened.page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert (opened.complaints, opened.requests) == ([], [])

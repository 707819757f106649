"""A real browser for the pages that we write: Debian's Chromium, driven by Playwright.

Without Chromium these tests skip; with PROMPTMILL_REQUIRE_BROWSER=1, as in CI, they fail.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Scheme = Literal["light", "dark"]

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
"""Runs as root in a container and asks the network for nothing."""

CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Opened:
    """A page in the browser and what it did that it should not."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    """Errors and warnings of the console, exceptions."""
    requests: list[str] = field(default_factory=list)
    """Everything asked for beyond the file itself."""

    def faint_texts(self) -> list[str]:
        """Visible texts whose contrast to what is behind them is below WCAG's AA."""
        found: list[str] = self.page.evaluate(CONTRAST)
        return found

    def focused(self) -> str:
        """What has the keyboard: the element's id, else its tag."""
        name: str = self.page.evaluate(
            "document.activeElement.id || document.activeElement.tagName.toLowerCase()"
        )
        return name


Open = Callable[..., Opened]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests."""
    from playwright.sync_api import sync_playwright  # only where a browser is wanted

    chromium = shutil.which("chromium")
    if chromium is None:
        why = "no chromium here; apt-get install chromium"
        if os.environ.get("PROMPTMILL_REQUIRE_BROWSER") == "1":
            pytest.fail(why)
        pytest.skip(why)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Open a file: `open_page(path, scheme="dark", width=400)`; every page in a fresh context."""
    contexts = []

    def open_file(path: Path, *, scheme: Scheme = "light", width: int = 1280) -> Opened:
        viewport = {"width": width, "height": 900}
        context = browser.new_context(color_scheme=scheme, viewport=viewport)  # type: ignore[arg-type]
        contexts.append(context)
        opened = Opened(context.new_page())
        page, address = opened.page, path.absolute().as_uri()
        page.on(
            "console",
            lambda said: (
                opened.complaints.append(said.text) if said.type in ("error", "warning") else None
            ),
        )
        page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        page.on(
            "request",
            lambda request: (
                None
                if request.url.split("#")[0] == address
                else opened.requests.append(request.url)
            ),
        )
        page.goto(address)
        return opened

    yield open_file
    for context in contexts:
        context.close()

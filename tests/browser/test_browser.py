"""The measuring instruments of the browser tests measure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

PAGE = """<!doctype html><title>t</title><body style="background:#fff">
<p style="color:#777;background:#f8f8f8">faint</p><p style="color:#555">clear</p>
<p style="color:#8888;font-size:30px">see-through</p><p hidden style="color:#fff">hidden</p>
<svg width=50 height=50><text y=20 fill="#ddd">chart</text></svg>
<img src="nothing.png"><button id=go>go</button><script>undefined_name()</script>"""


def test_faint_texts_requests_and_errors_are_seen(
    open_page: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "page.html").write_text(PAGE)
    opened = open_page(tmp_path / "page.html")
    assert [line.split()[1] for line in opened.faint_texts()] == ["faint", "see-through", "chart"]
    assert any("undefined_name" in line for line in opened.complaints)
    assert [url.rsplit("/", 1)[1] for url in opened.requests] == ["nothing.png"]
    opened.page.keyboard.press("Tab")
    assert opened.focused() == "go"

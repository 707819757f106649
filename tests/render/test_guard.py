"""Time limits. The limits here are short, the waits are the renderer's own."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from promptmill.pipeline.render.guard import GuardedRenderer
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.request import Rendered, Request

ENDLESS = (
    "{% if messages[0].content == 'bomb' %}{% for a in range(999) %}{% for b in range(999) %}"
    "{% for c in range(999) %}{% endfor %}{% endfor %}{% endfor %}{% endif %}"
    "{{ messages[0].content }}"
)


@pytest.fixture
def rows(make_request: Callable[..., Request]) -> Callable[..., list[Request]]:
    return lambda *texts: [make_request({"role": "user", "content": text}) for text in texts]


def outcomes(results: list[Rendered | RowError]) -> list[Any]:
    return [result.code if isinstance(result, RowError) else result.text for result in results]


class Slow:
    """Takes its time for every row, without ever hanging."""

    def admit(self, request: Request) -> None:
        """Any."""

    def render(self, request: Request) -> Rendered:
        time.sleep(0.05)
        return Rendered(text="done")


def test_a_row_that_never_ends_loses_only_itself(make_renderer: Any, rows: Any) -> None:
    guarded = GuardedRenderer(make_renderer(ENDLESS), timeout=1.0)
    results = guarded.render_batch(rows("a", "b"))
    assert outcomes(results) == ["a", "b"]
    assert not guarded.stuck
    results = guarded.render_batch(rows("a", "bomb", "b", "bomb", "c"))
    timeout = ErrorCode.TEMPLATE_TIMEOUT
    assert outcomes(results) == ["a", timeout, "b", timeout, "c"]
    assert guarded.stuck
    assert isinstance(results[1], RowError)
    assert "1 seconds" in results[1].message
    assert "--render-timeout" in results[1].message


def test_the_threads_that_were_left_behind_end(make_renderer: Any, rows: Any) -> None:
    guarded = GuardedRenderer(make_renderer(ENDLESS), timeout=0.2)
    guarded.render_batch(rows("bomb"))
    for thread in threading.enumerate():
        if thread.name == "render":
            thread.join(timeout=30)
            assert not thread.is_alive()


def test_a_slow_but_honest_batch_is_not_cut(rows: Any) -> None:
    guarded = GuardedRenderer(Slow(), timeout=1.0)
    assert outcomes(guarded.render_batch(rows(*"x" * 25))) == ["done"] * 25


@pytest.mark.parametrize("timeout", [0, 30.0])
def test_errors_are_results(make_renderer: Any, rows: Any, timeout: float) -> None:
    template = "{% if messages[0].content == 'bad' %}{{ raise_exception('no') }}{% endif %}ok"
    guarded = GuardedRenderer(make_renderer(template), timeout)
    assert outcomes(guarded.render_batch(rows("a", "bad", "b"))) == [
        "ok",
        ErrorCode.TEMPLATE_ERROR,
        "ok",
    ]
    assert guarded.render_batch([]) == []


@pytest.mark.parametrize("timeout", [0, 30.0])
def test_a_failure_of_ours_is_the_row_s_error(
    rows: Any, timeout: float, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Slow):
        def render(self, request: Request) -> Rendered:
            raise KeyError("ours")

    results = GuardedRenderer(Broken(), timeout).render_batch(rows("a", "b"))
    assert outcomes(results) == [ErrorCode.INTERNAL_ERROR] * 2
    assert "KeyError" in caplog.text

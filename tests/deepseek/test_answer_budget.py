"""The output budget is what the library's own `resolve_max_tokens` says."""

from collections.abc import Callable
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptmill.pipeline.answer import resolve_answer
from promptmill.schemas.errors import ErrorCode, RowError
from promptmill.schemas.request import Answer, Rendered

EFFORTS = [None, "none", "low", "high", "xhigh", "max", "ultra"]


@given(
    effort=st.sampled_from(EFFORTS),
    asked=st.none() | st.integers(1, 393_216) | st.integers(1, 50),
    num_tokens=st.integers(0, 200_000) | st.integers(0, 60),
    room=st.integers(-60, 200_000) | st.integers(-5, 60),
)
def test_budgets_are_the_library_s(
    render: Callable[..., Rendered],
    library: ModuleType,
    effort: str | None,
    asked: int | None,
    num_tokens: int,
    room: int,
) -> None:
    body = {"messages": [{"role": "user", "content": "x"}], "model": "DeepSeek-V4.1-Flash"}
    body |= {"reasoning_effort": effort, "max_tokens": asked}
    request = library.ChatCompletionRequest(body).convert(library.ConversionOptions())
    limit = max(0, num_tokens + room)
    answer = render(body).answer
    assert answer is not None
    try:
        ours: int | str = resolve_answer(answer, num_tokens=num_tokens, max_model_len=limit)
    except RowError as error:
        ours = error.message
    try:
        theirs = request.resolve_max_tokens(num_tokens, limit)
    except library.ConversionError as error:
        theirs = str(error)
    assert ours == theirs


def test_the_job_s_number_stands_in() -> None:
    answer = Answer(None, 8192)
    assert resolve_answer(answer, num_tokens=10, max_model_len=100, asked=20) == 20
    assert resolve_answer(Answer(5, 8192), num_tokens=10, max_model_len=100, asked=20) == 5
    with pytest.raises(RowError) as caught:
        resolve_answer(answer, num_tokens=90, max_model_len=100, asked=20)
    assert caught.value.code is ErrorCode.PROMPT_TOO_LONG
    assert (caught.value.parameter, caught.value.value) == ("max_tokens", 20)


def test_prompts_that_may_be_cut_take_what_is_left() -> None:
    answer = Answer(20, 8192)
    assert resolve_answer(answer, num_tokens=90, max_model_len=100, lowers=True) == 10
    assert resolve_answer(answer, num_tokens=10, max_model_len=100, lowers=True) == 20
    with pytest.raises(RowError, match=r"101 tokens \(101 in"):
        resolve_answer(Answer(None, 8192), num_tokens=101, max_model_len=100, lowers=True)
